//! Thinking that a model writes into its answer, as `<think>…</think>` before the rest.

use std::borrow::Cow;

/// Marks around the thinking. Source: chat templates of open models.
const MARKS: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<thinking>", "</thinking>"), ("[THINK]", "[/THINK]")];

/// Separates thinking at the beginning of an answer from the rest, piece by piece.
#[derive(Debug, Default)]
pub(super) struct ThinkingSplitter {
    place: ThinkingPosition,
    /// Text that may be the beginning of a mark.
    waiting: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum ThinkingPosition {
    /// Before the first text.
    #[default]
    Start,
    /// In thinking that ends with this mark.
    Thinking(&'static str),
    /// After the thinking, before the first text of the answer.
    AfterThinking,
    Answer,
}

/// Piece of an answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ThinkingPiece<'t> {
    Thinking(Cow<'t, str>),
    Answer(Cow<'t, str>),
}

impl ThinkingSplitter {
    /// Returns the pieces of the next text.
    pub(super) fn push<'t>(&mut self, text: &'t str) -> Vec<ThinkingPiece<'t>> {
        if self.place == ThinkingPosition::Answer {
            return vec![ThinkingPiece::Answer(Cow::Borrowed(text))];
        }
        let mut pieces = Vec::new();
        self.waiting.push_str(text);
        loop {
            match self.place {
                ThinkingPosition::Start => {
                    let trimmed = self.waiting.trim_start();
                    if let Some((mark, end)) = MARKS.iter().find(|(mark, _)| trimmed.starts_with(mark)) {
                        let begin = self.waiting.len() - trimmed.len() + mark.len();
                        self.waiting.drain(..begin);
                        self.place = ThinkingPosition::Thinking(end);
                        continue;
                    }
                    // White space alone, or the beginning of a mark.
                    if MARKS.iter().any(|(mark, _)| mark.starts_with(trimmed)) {
                        return pieces;
                    }
                    self.place = ThinkingPosition::Answer;
                    pieces.push(ThinkingPiece::Answer(Cow::Owned(std::mem::take(&mut self.waiting))));
                    return pieces;
                }
                ThinkingPosition::Thinking(end) => {
                    if let Some(found) = self.waiting.find(end) {
                        let thought: String = self.waiting.drain(..found).collect();
                        self.waiting.drain(..end.len());
                        if !thought.is_empty() {
                            pieces.push(ThinkingPiece::Thinking(Cow::Owned(thought)));
                        }
                        self.place = ThinkingPosition::AfterThinking;
                        continue;
                    }
                    let begun = begun_mark(&self.waiting, end);
                    let thought: String = self.waiting.drain(..self.waiting.len() - begun).collect();
                    if !thought.is_empty() {
                        pieces.push(ThinkingPiece::Thinking(Cow::Owned(thought)));
                    }
                    return pieces;
                }
                ThinkingPosition::AfterThinking => {
                    let blank = self.waiting.len() - self.waiting.trim_start().len();
                    self.waiting.drain(..blank);
                    if !self.waiting.is_empty() {
                        self.place = ThinkingPosition::Answer;
                        pieces.push(ThinkingPiece::Answer(Cow::Owned(std::mem::take(&mut self.waiting))));
                    }
                    return pieces;
                }
                ThinkingPosition::Answer => return pieces,
            }
        }
    }

    /// Returns the rest at the end of the answer.
    pub(super) fn finish(&mut self) -> Option<ThinkingPiece<'static>> {
        let rest = std::mem::take(&mut self.waiting);
        if rest.is_empty() {
            return None;
        }
        Some(match self.place {
            ThinkingPosition::Thinking(_) => ThinkingPiece::Thinking(Cow::Owned(rest)),
            _ => ThinkingPiece::Answer(Cow::Owned(rest)),
        })
    }
}

/// Returns the length of the longest end of `text` with which `mark` begins.
fn begun_mark(text: &str, mark: &str) -> usize {
    let lengths = (1..mark.len()).rev();
    lengths.into_iter().find(|length| text.ends_with(&mark[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(pieces: &[&str]) -> (String, String) {
        let mut splitter = ThinkingSplitter::default();
        let (mut thinking, mut answer) = (String::new(), String::new());
        let mut add = |piece| match piece {
            ThinkingPiece::Thinking(text) => thinking.push_str(&text),
            ThinkingPiece::Answer(text) => answer.push_str(&text),
        };
        for piece in pieces {
            splitter.push(piece).into_iter().for_each(&mut add);
        }
        splitter.finish().into_iter().for_each(&mut add);
        (thinking, answer)
    }

    #[test]
    fn thinking_before_the_answer_is_separated_and_other_text_is_not() {
        for (text, thinking, answer) in [
            ("<think>\nHm.\n</think>\n\nYes.", "\nHm.\n", "Yes."),
            ("  <think>Hm.</think>", "Hm.", ""),
            ("<think></think>Yes.", "", "Yes."),
            ("<think>cut", "cut", ""),
            ("<thin", "", "<thin"),
            ("<thing>x", "", "<thing>x"),
            ("Use <think>x</think> here.", "", "Use <think>x</think> here."),
            ("[THINK]a < b[/THINK]c", "a < b", "c"),
            ("<think>a</think> b <think>c</think>", "a", "b <think>c</think>"),
            ("\n ", "", "\n "),
            ("", "", ""),
        ] {
            assert_eq!(split(&[text]), (thinking.to_owned(), answer.to_owned()), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_pieces_of_a_text_give_the_same(
            text in "( |<think>|</think>|<|/|a|é|think>){0,12}",
            cuts in proptest::collection::vec(0_usize..40, 0..6),
        ) {
            let mut pieces = Vec::new();
            let mut rest = text.as_str();
            for cut in cuts {
                let (piece, after) = rest.split_at(rest.floor_char_boundary(cut.min(rest.len())));
                pieces.push(piece);
                rest = after;
            }
            pieces.push(rest);
            prop_assert_eq!(split(&pieces), split(&[&text]));
        }
    }
}
