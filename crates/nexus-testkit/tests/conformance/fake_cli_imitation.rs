//! The loop under every imitation, with one that says plainly what happens.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use libtest_mimic::Trial;
use nexus_testkit::{
    conformance::{Line, ModelCall, Witness as _},
    fake_cli::{
        self, Act, AfterFault, Ask, Ending, Exit, FakeCli, FakeScript, Heard, Imitation, Moment, Next,
        Reaction, Stage, Trouble, Vendor,
    },
    sim::{Cut, Finish, Reply, Scenario, ToolCall},
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

/// A harness that reads its prompt from its input, and says what happens, a word to a line.
struct Plain;

impl Imitation for Plain {
    fn open(&mut self, stage: &mut Stage) -> Result<Ask, Exit> {
        let Some(prompt) = stage.wait_for_line() else { return Err(Exit::code(2)) };
        Ok(Ask::new(ModelCall { user_texts: vec![prompt], ..ModelCall::default() }))
    }

    fn objection(&self, call: &ToolCall) -> Option<String> {
        matches!(call, ToolCall::ReadFile { .. }).then(|| "reading is not allowed".to_owned())
    }

    fn show(&mut self, moment: &Moment<'_>, stage: &mut Stage) {
        let line = match moment {
            Moment::CallBegins { tries } => format!("ask {tries}"),
            Moment::Text(piece) => format!("text {piece}"),
            Moment::Thinking(piece) => format!("thinking {piece}"),
            Moment::ToolBegins { .. } => "tool".to_owned(),
            Moment::ToolEnds { answer, is_denied, .. } => format!("answer {:?} {is_denied}", answer.outcome),
            Moment::MessageEnds { text, calls, .. } => format!("end {text:?} {}", calls.len()),
            _ => return,
        };
        stage.write(format!("{line}\n").as_bytes());
    }

    fn trouble(&mut self, trouble: &Trouble<'_>, tries: u32, stage: &mut Stage) -> AfterFault {
        let word = match trouble {
            Trouble::Refused => "refused",
            Trouble::Fault(_) => "fault",
            Trouble::BadEnd(_) => "bad end",
            _ => "empty",
        };
        stage.write(format!("trouble {word}\n").as_bytes());
        if tries < 2 { AfterFault::AskAgain(Duration::from_millis(10)) } else { AfterFault::GiveUp }
    }

    fn heard(&mut self, heard: &Heard, _stage: &mut Stage) -> Reaction {
        match heard {
            Heard::Signal(2) => Reaction::Interrupt { ends_tools: true },
            Heard::Signal(number) => Reaction::Die(*number),
            _ => Reaction::GoOn,
        }
    }

    fn close(&mut self, ending: Ending, stage: &mut Stage) -> Next {
        stage.write(format!("{ending:?}\n").as_bytes());
        Next::Exit(Exit::code(if ending == Ending::Answered { 0 } else { 1 }))
    }
}

/// Becomes the fake if this program was called by a vendor's name.
pub(crate) fn run_if_invoked() {
    fake_cli::run_if_invoked_with(|_| Some(Box::new(Plain)));
}

pub(crate) fn trials() -> Vec<Trial> {
    let tests: [(&str, fn()); 8] = [
        ("an_answer_comes_in_pieces", an_answer_comes_in_pieces),
        ("tools_really_run_and_the_model_is_told", tools_really_run_and_the_model_is_told),
        ("a_tool_that_is_not_allowed_does_not_run", a_tool_that_is_not_allowed_does_not_run),
        ("trouble_is_asked_about_and_given_up", trouble_is_asked_about_and_given_up),
        ("the_script_goes_on_in_the_next_process", the_script_goes_on_in_the_next_process),
        ("a_polite_interrupt_ends_the_tool", a_polite_interrupt_ends_the_tool),
        ("a_signal_kills_and_leaves_the_tool", a_signal_kills_and_leaves_the_tool),
        ("a_stall_lasts_until_it_is_ended", a_stall_lasts_until_it_is_ended),
    ];
    let trial = |(name, test): (&str, fn())| {
        Trial::test(format!("fake_cli_imitation::{name}"), move || {
            test();
            Ok(())
        })
    };
    tests.into_iter().map(trial).collect()
}

fn install(scenario: impl Into<Scenario>) -> FakeCli {
    FakeCli::install(Vendor::Grok, &FakeScript::imitate(scenario)).unwrap()
}

fn start(fake: &FakeCli) -> Child {
    use std::io::Write as _;

    let mut command = Command::new(fake.executable());
    command.env_clear().current_dir(fake.folder()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    child
}

fn run(fake: &FakeCli) -> (String, Option<i32>) {
    let output = start(fake).wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code())
}

fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn an_answer_comes_in_pieces() {
    let fake = install(Reply::thinking("hm").and_text("abcdef").paced(3, Duration::from_millis(1)));
    let (said, code) = run(&fake);
    assert_eq!(said, "ask 1\nthinking hm\ntext abc\ntext def\nend \"abcdef\" 0\nAnswered\n");
    assert_eq!(code, Some(0));
    assert_eq!(fake.model_calls()[0].user_texts, ["hello"]);
}

fn tools_really_run_and_the_model_is_told() {
    let calls = Reply::calls([
        ToolCall::shell("echo out; echo err >&2; touch made"),
        ToolCall::write_file("written", "text"),
        ToolCall::shell("exit 4"),
    ]);
    let fake = install(Scenario::new([calls, Reply::text("done")]));
    let (said, code) = run(&fake);
    assert!(said.ends_with("end \"done\" 0\nAnswered\n"), "{said}");
    assert_eq!(code, Some(0));
    assert!(fake.folder().join("made").exists());
    assert_eq!(std::fs::read_to_string(fake.folder().join("written")).unwrap(), "text");
    let told = &fake.model_calls()[1].tool_results;
    assert!(told.contains(&"out\nerr\n".to_owned()), "{told:?}");
    assert!(told.iter().any(|text| text.contains("exit status: 4")), "{told:?}");
}

fn a_tool_that_is_not_allowed_does_not_run() {
    let fake = install(Scenario::tool_then_text(ToolCall::read_file("/etc/hostname"), "so be it"));
    let (said, _) = run(&fake);
    assert!(said.contains("answer Err(\"reading is not allowed\") true\n"), "{said}");
    assert_eq!(fake.model_calls()[1].tool_results, ["reading is not allowed"]);
}

fn trouble_is_asked_about_and_given_up() {
    let torn = Reply::text("ha").torn(Cut::Fin);
    let once = install(Scenario::new([torn.clone(), Reply::text("whole")]));
    assert!(run(&once).0.ends_with("trouble fault\nask 2\ntext whole\nend \"whole\" 0\nAnswered\n"));
    let always: [Reply; 4] =
        [torn, Reply::status(500), Reply::empty(), Reply::text("ha").finish(Finish::Refusal)];
    for reply in always {
        let (said, code) = run(&install(reply));
        assert_eq!(said.matches("trouble").count(), 2, "{said}");
        assert!(said.ends_with("Failed\n"));
        assert_eq!(code, Some(1));
    }
    let nobody = Act::Imitate { scenario: Box::default(), line: Line::Refused };
    let fake = FakeCli::install(Vendor::Grok, &FakeScript::new(nobody)).unwrap();
    assert!(run(&fake).0.contains("trouble refused\n"));
    assert!(fake.model_calls().is_empty());
}

fn the_script_goes_on_in_the_next_process() {
    let fake = install(Scenario::new([Reply::text("first"), Reply::text("second")]));
    assert!(run(&fake).0.contains("first"));
    assert!(run(&fake).0.contains("second"));
    assert_eq!(fake.model_calls().len(), 2);
    assert_eq!(fake.invocations().len(), 2);
}

/// Starts a fake whose tool has begun. Returns it with the number of the tool's process.
fn with_running_tool(folder_of: &FakeCli) -> (Child, Pid) {
    let child = start(folder_of);
    let file = folder_of.folder().join("pid");
    wait_for("the tool", || read_pid(&file).is_some());
    (child, read_pid(&file).unwrap())
}

fn read_pid(file: &Path) -> Option<Pid> {
    let text = std::fs::read_to_string(file).ok()?;
    Pid::from_raw(text.strip_suffix('\n')?.parse().ok()?)
}

fn sleeper() -> FakeCli {
    install(Reply::call(ToolCall::shell("echo $$ > pid; exec sleep 300")))
}

fn a_polite_interrupt_ends_the_tool() {
    let fake = sleeper();
    let (child, tool) = with_running_tool(&fake);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.stdout.ends_with(b"Interrupted\n"));
    assert_eq!(output.status.code(), Some(1));
    wait_for("the end of the tool", || test_kill_process(tool).is_err());
}

fn a_signal_kills_and_leaves_the_tool() {
    let fake = sleeper();
    let (child, tool) = with_running_tool(&fake);
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    assert!(test_kill_process(tool).is_ok(), "the tool lives on, in a session of its own");
    kill_process(tool, Signal::KILL).unwrap();
}

fn a_stall_lasts_until_it_is_ended() {
    let fake = install(Reply::text("ha").stalled());
    let mut child = start(&fake);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    wait_for("the half", || lines.next().is_some_and(|line| line.unwrap() == "text ha"));
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(1));
}
