#!/usr/bin/env node
// The OpenID provider `oidc-provider`, on loopback, for the tests of logins. It forgets everything when it ends.
//
//   node oidc-provider.mjs [--port N] [--access-token-seconds N]
//
// The first line of stdout is its URL. Then comes one JSON object per line, with times in milliseconds since the epoch:
//
//   {"event":"arrived","at":...,"request":7}          a request to the token endpoint, its head read
//   {"event":"answered","at":...,"request":7,...}     its answer was handed to the connection, or the client had left
//   {"event":"revoked","at":...,"grant":"..."}        every token of a login became void
//
// `answered` also says when the presented refresh token was spent (`spent_at`), which one of its login it was
// (`rotations`), what came of it (`status`, `error`, `reuse`), and whether the client was still there (`delivered`).
// No token is ever written.
//
// What is the provider's own: the protocol, PKCE, rotation, the detection of reuse, device flow, revocation. What is set
// here: one public client, one invented person who is logged in and agrees to everything as soon as a browser comes by.
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';
import { Provider } from 'oidc-provider';

// Stdout is the log's alone; the provider remarks upon its defaults there.
console.info = console.error;

const { values: options } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    'access-token-seconds': { type: 'string', default: '3600' },
  },
});
let accessTokenSeconds = Number(options['access-token-seconds']);

const ACCOUNT = 'invented-account';
const DAY = 24 * 60 * 60;

const now = () => performance.timeOrigin + performance.now();
const log = (event, more) => process.stdout.write(`${JSON.stringify({ event, at: now(), ...more })}\n`);

const signingKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });

const configuration = {
  clients: [{
    client_id: 'nexus-test-client',
    application_type: 'native',
    token_endpoint_auth_method: 'none',
    grant_types: ['authorization_code', 'refresh_token', 'urn:ietf:params:oauth:grant-type:device_code'],
    response_types: ['code'],
    // A native client's port is its own affair: RFC 8252, 7.3.
    redirect_uris: ['http://127.0.0.1/auth/callback', 'http://127.0.0.1/callback'],
    id_token_signed_response_alg: 'ES256',
  }],
  jwks: { keys: [{ ...signingKey, use: 'sig', alg: 'ES256', kid: 'only' }] },
  cookies: { keys: [randomBytes(24).toString('hex')] },
  scopes: ['openid', 'email', 'offline_access'],
  claims: { openid: ['sub', 'https://api.openai.com/auth'], email: ['email', 'email_verified'] },
  conformIdTokenClaims: false,
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async (ctx, client) => client.grantTypeAllowed('refresh_token'),
  expiresWithSession: async () => false,
  features: {
    devInteractions: { enabled: false },
    deviceFlow: { enabled: true },
    revocation: { enabled: true },
    rpInitiatedLogout: { enabled: false },
    userinfo: { enabled: false },
  },
  ttl: {
    AccessToken: () => accessTokenSeconds,
    AuthorizationCode: 60,
    DeviceCode: 600,
    Grant: DAY,
    IdToken: 3600,
    Interaction: 600,
    RefreshToken: DAY,
    Session: DAY,
  },
  interactions: { url: (ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: (ctx, id) => ({
    accountId: id,
    claims: () => ({
      sub: id,
      email: 'somebody@example.test',
      email_verified: true,
      'https://api.openai.com/auth': { chatgpt_account_id: id, chatgpt_plan_type: 'pro' },
    }),
  }),
};

const server = createServer();
await new Promise((resolve, reject) => {
  server.once('error', reject);
  server.listen(Number(options.port), '127.0.0.1', resolve);
});
const url = `http://127.0.0.1:${server.address().port}`;
const provider = new Provider(url, configuration);

// The requests to the token endpoint that are being answered.
const asked = new WeakMap();
let requests = 0;

async function watch(request, response) {
  const told = { request: requests, spent_at: null, error: null, error_detail: null, reuse: false };
  requests += 1;
  asked.set(request, told);
  log('arrived', { request: told.request });
  // `finish`: the last byte was handed to the system. `close` without it: the client had left.
  const ended = new Promise((resolve) => {
    response.once('finish', () => resolve({ at: now(), delivered: !request.socket.destroyed }));
    response.once('close', () => resolve({ at: now(), delivered: false }));
  });
  // What is asked is done also for a client that has left.
  await callback(request, response);
  log('answered', { ...told, status: response.statusCode, ...(await ended) });
}

function note(ctx, more) {
  const told = asked.get(ctx.req);
  if (told) Object.assign(told, more);
}

// Which refresh token of which login was presented.
function presented(ctx) {
  const { RotatedRefreshToken, RefreshToken } = ctx.oidc.entities;
  const token = RotatedRefreshToken ?? (ctx.oidc.params?.grant_type === 'refresh_token' ? RefreshToken : undefined);
  return token && { grant: token.grantId, rotations: token.rotations ?? 0 };
}

provider.on('grant.success', (ctx) => {
  const { RefreshToken } = ctx.oidc.entities;
  note(ctx, {
    grant_type: ctx.oidc.params.grant_type,
    grant: RefreshToken?.grantId,
    new_rotations: RefreshToken?.rotations ?? 0,
    ...presented(ctx),
  });
});
provider.on('grant.error', (ctx, error) => {
  note(ctx, {
    grant_type: ctx.oidc?.params?.grant_type,
    error: error.error,
    error_detail: error.error_detail,
    reuse: /already (used|consumed)/.test(error.error_detail ?? ''),
    ...(ctx.oidc?.entities && presented(ctx)),
  });
});
provider.on('refresh_token.consumed', () => {
  const told = asked.get(Provider.ctx?.req);
  if (told) told.spent_at = now();
});
provider.on('grant.revoked', (ctx, grant) => log('revoked', { grant }));
provider.on('server_error', (ctx, error) => console.error(error));

// Logs the invented person in, and lets the client have what it asks for.
async function interact(request, response) {
  const { prompt, params, session, grantId } = await provider.interactionDetails(request, response);
  if (prompt.name === 'login') {
    await provider.interactionFinished(request, response, { login: { accountId: ACCOUNT } });
    return;
  }
  const grant = (grantId && await provider.Grant.find(grantId))
    ?? new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(params.scope);
  await provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
}

const callback = provider.callback();
server.on('request', (request, response) => {
  const { pathname, searchParams } = new URL(request.url, url);
  if (pathname.startsWith('/interaction/')) {
    interact(request, response).catch((error) => {
      console.error(error);
      response.writeHead(500).end();
    });
    return;
  }
  // For tests: how long access tokens live from now on.
  if (request.method === 'POST' && pathname === '/test/access-token') {
    accessTokenSeconds = Number(searchParams.get('seconds'));
    response.writeHead(204).end();
    return;
  }
  // For tests: whatever was logged before this line happened before this request.
  if (request.method === 'POST' && pathname === '/test/mark') {
    log('marked', { mark: searchParams.get('mark') });
    response.writeHead(204).end();
    return;
  }
  if (request.method === 'POST' && pathname === '/token') watch(request, response);
  else callback(request, response);
});

process.stdout.write(`${url}\n`);
