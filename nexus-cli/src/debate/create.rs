//! `nexus debate new`: a question, and what panelists may read.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    process::ExitCode,
};

use nexus_debate::{DebateCreateRequest, Debates, SourceDraft};

use crate::{
    args::NewDebateArgs,
    command_error::CommandError,
    output::{say, say_json},
};

pub(super) async fn create(debates: &Debates, args: &NewDebateArgs) -> Result<ExitCode, CommandError> {
    let question = match &args.question {
        Some(question) => question.clone(),
        None => {
            let mut question = String::new();
            io::stdin().read_to_string(&mut question).map_err(|error| format!("standard input: {error}"))?;
            question
        }
    };
    let context = args.context.as_ref().map(|path| {
        fs::read_to_string(path).map_err(|error| CommandError::from(format!("{}: {error}", path.display())))
    });
    let mut sources = Vec::new();
    for source in &args.source {
        let (name, path) = source
            .split_once('=')
            .ok_or_else(|| format!("--source takes NAME=PATH, and {source:?} has no `=`"))?;
        let path = std::path::Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
        sources.push(SourceDraft { name: name.to_owned(), text: None, path: Some(path) });
    }
    let mut labels = BTreeMap::new();
    for label in &args.label {
        let (name, value) = label
            .split_once('=')
            .ok_or_else(|| format!("--label takes NAME=VALUE, and {label:?} has no `=`"))?;
        labels.insert(name.to_owned(), value.to_owned());
    }
    // What a person names on the command line is what may be read.
    let roots: Vec<_> = sources.iter().filter_map(|source| source.path.clone()).collect();
    let request = DebateCreateRequest {
        question,
        context: context.transpose()?,
        sources,
        pins: args.pin.clone(),
        panelists: args.panelists,
        min_rounds: args.min_rounds,
        max_rounds: args.max_rounds,
        budget: args.budget.named(),
        labels,
        ..DebateCreateRequest::default()
    };
    let created = debates.create_below(request, &roots).await?;
    for warning in &created.warnings {
        super::note(warning);
    }
    match args.json {
        true => say_json(&created),
        false => say(&created.debate_id),
    }
    Ok(ExitCode::SUCCESS)
}
