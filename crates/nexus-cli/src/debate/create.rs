//! `nexus debate new`: a question, and what panelists may read.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    process::ExitCode,
};

use nexus_debates::{DebateCreateRequest, Debates, SourceDraft};

use crate::{
    args::NewDebateArgs,
    command_error::CommandError,
    input,
    output::{AnswerWriter, say},
    works::note,
};

/// Maximum size of a text that is read, in bytes. It exceeds the limit of every text.
const MOST_BYTES: u64 = 1 << 20;

pub(super) async fn create(
    out: AnswerWriter,
    debates: &Debates,
    args: &NewDebateArgs,
) -> Result<ExitCode, CommandError> {
    let question = match &args.question {
        Some(question) => question.clone(),
        None => {
            input::ask_for_input("the question");
            read_bounded(io::stdin()).map_err(|error| format!("standard input: {error}"))?
        }
    };
    let context = args.context.as_ref().map(|path| {
        let read = File::open(path).and_then(read_bounded);
        read.map_err(|error| CommandError::from(format!("--context {}: {error}", path.display())))
    });
    let mut sources = Vec::new();
    for source in &args.source {
        let (name, path) = source
            .split_once('=')
            .ok_or_else(|| format!("write --source NAME=PATH: {source:?} has no `=`"))?;
        let path = std::path::Path::new(path).canonicalize().map_err(|error| format!("{path}: {error}"))?;
        sources.push(SourceDraft { name: name.to_owned(), text: None, path: Some(path) });
    }
    let mut labels = BTreeMap::new();
    for label in &args.label {
        let (name, value) =
            label.split_once('=').ok_or_else(|| format!("write --label NAME=VALUE: {label:?} has no `=`"))?;
        if labels.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(format!("--label {name}=… is there twice").into());
        }
    }
    // The debate may read exactly the paths that the command line names.
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
        note(warning);
    }
    out.show(&created, |created| say(&created.debate_id));
    Ok(ExitCode::SUCCESS)
}

fn read_bounded(from: impl Read) -> io::Result<String> {
    nexus_files::read_text(from, MOST_BYTES)
}
