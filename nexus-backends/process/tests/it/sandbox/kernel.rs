//! What a program in a sandbox can do to the kernel, and learn from it.

use super::support::{has_sandbox, said, sandbox};

#[tokio::test]
async fn nothing_can_be_written_but_the_room_of_its_own() {
    if !has_sandbox().await {
        return;
    }
    let script = "
        for place in / /usr /usr/bin /etc /dev /proc /proc/sys/kernel /var /bin; do
            touch $place/x 2>/dev/null && echo \"wrote to $place\"
        done
        for file in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sys/vm/drop_caches /proc/sysrq-trigger \
            /etc/passwd /etc/resolv.conf /proc/acpi/wakeup; do
            (echo x >>$file) 2>/dev/null && echo \"wrote to $file\"
        done
        find /proc -maxdepth 4 -path '/proc/[0-9]*' -prune -o -path /proc/self -prune -o -path /proc/thread-self -prune \
            -o -type f -writable -print 2>/dev/null
        for place in /tmp /run /dev/shm /var/tmp \"$HOME\"; do touch $place/x || echo \"cannot write to $place\"; done
        echo done";
    assert_eq!(said(&sandbox(), script).await, "done\n");
}

#[tokio::test]
async fn nothing_is_gained_and_nobody_is_traced() {
    if !has_sandbox().await {
        return;
    }
    let script = "
        # The first process is of the same user, so it could be made to do what it may.
        for process in self 1; do grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/$process/status; done
        unshare --user true 2>/dev/null && echo 'a user namespace'
        unshare --mount true 2>/dev/null && echo 'a mount namespace'
        mount -t tmpfs none /tmp 2>/dev/null && echo mounted
        mount -o remount,rw /usr 2>/dev/null && echo remounted
        mount -o remount,rw / 2>/dev/null && echo remounted /
        umount /proc/sys 2>/dev/null && echo unmounted
        hostname x 2>/dev/null && echo renamed
        chroot / true 2>/dev/null && echo 'changed root'
        mknod /tmp/sda b 8 0 2>/dev/null && echo 'a device'
        (exec 3<>/dev/tty) 2>/dev/null && echo 'a terminal'
        for program in su sudo mount passwd; do find /usr/bin/$program -perm -4000 2>/dev/null; done | while read program; do
            $program --version </dev/null >/dev/null 2>&1; done
        grep -v -E 'nosuid|devpts' /proc/self/mounts | grep -v -E '^(none|devtmpfs|udev|dev) '
        cat /proc/keys /proc/kcore /proc/timer_list 2>/dev/null | wc -c
        dmesg 2>/dev/null | wc -l
        ls /proc/1/root/home
        echo x >/proc/1/oom_score_adj; kill -STOP 1; kill -9 1
        echo done";
    let seen = said(&sandbox(), script).await;
    let mut lines = seen.lines();
    let none = "0000000000000000";
    for _ in ["self", "1"] {
        for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
            assert_eq!(lines.next().unwrap(), format!("{name}:\t{none}"), "{seen}");
        }
        assert_eq!((lines.next(), lines.next()), (Some("NoNewPrivs:\t1"), Some("Seccomp:\t2")), "{seen}");
    }
    assert_eq!(lines.collect::<Vec<_>>(), ["0", "0", "sandbox", "done"], "{seen}");
}

/// Root owns them, and bubblewrap shows those of the machine.
#[tokio::test]
async fn no_device_of_the_machine_is_changed() {
    if !has_sandbox().await {
        return;
    }
    // The mode that they have: a failure leaves the machine as it is.
    let script = "
        for device in /dev/*; do [ -c $device ] && [ ! -L $device ] && chmod 666 $device 2>/dev/null && echo \"changed $device\"; done
        echo x >/dev/null && head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo x >/dev/full 2>/dev/null || echo full";
    assert_eq!(said(&sandbox(), script).await, "3\n3\nfull\n");
}

#[tokio::test]
async fn nothing_is_left_in_a_tree_that_runs_as_somebody() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has_sandbox().await {
        return;
    }
    if !std::path::Path::new("/usr/bin/perl").exists() {
        return eprintln!("SKIPPED, not shown here: no perl to make system calls with");
    }
    let folder = tempfile::tempdir().unwrap();
    // `O_CREAT|O_WRONLY`, and every call of the architecture by its number. 0100000 is a regular file.
    let calls = if cfg!(target_arch = "x86_64") {
        "[90, $file, 04755], [91, $fd, 04755], [268, -100, $file, 02755], [452, -100, $file, 04755, 0],
         [133, $name++, 0104755, 0], [259, -100, $name++, 0104755, 0], [85, $name++, 04755], [2, $name++, 0101, 04755],
         [257, -100, $name++, 0101, 06755], [257, -100, '/tree', 020200001, 04755], [437, -100, $name++, 0, 24]"
    } else {
        "[52, $fd, 04755], [53, -100, $file, 04755], [452, -100, $file, 04755, 0], [33, -100, $name++, 0104755, 0],
         [56, -100, $name++, 0101, 06755], [437, -100, $name++, 0, 24]"
    };
    let script = format!(
        "chdir '/tree'; my $file = 'file'; open my $out, '>', $file or die; my $fd = fileno $out; my $name = 'a'; \
         umask 0; for my $call ({calls}) {{ my ($n, @a) = @$call; my $r = syscall($n, @a); print \"$n: $r\\n\" if $r != -1; }} \
         chmod 0755, $file or die; open my $plain, '<', $file or die; mkdir 'folder', 0777 or die; print 'done'"
    );
    let sandbox = sandbox().writable(folder.path(), "/tree");
    let outcome = super::support::ran(
        &sandbox,
        nexus_process::sandbox::SandboxCommand::new(["/usr/bin/perl", "-e", &script]),
    )
    .await;
    assert_eq!(outcome.stdout.text(), "done", "{}", outcome.stderr.text());
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode();
    assert_eq!(mode(folder.path()) & 0o6000, 0);
    assert_eq!(mode(&folder.path().join("file")) & 0o7777, 0o755);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// A keyring is inherited over every namespace; a ring of `io_uring` makes sockets past the filter.
#[tokio::test]
async fn calls_that_no_namespace_keeps_in_are_refused() {
    // Source: `asm/unistd_64.h`; `asm-generic/unistd.h`. Searches the session's keyring (-3), then asks for its description.
    let [keyctl, add_key, bpf, perf] =
        if cfg!(target_arch = "x86_64") { [250, 248, 321, 298] } else { [219, 217, 280, 241] };
    let script = format!(
        "for my $call ([{keyctl}, 6, -3, 0, 0], [{keyctl}, 1, 0, 0, 0], [{add_key}, 0, 0, 0, 0, -3], \
         [425, 1, 0], [426, 0, 0, 0, 0, 0], [427, 0, 0, 0], [{bpf}, 0, 0, 0], [{perf}, 0, 0, -1, -1, 0]) \
         {{ my ($n, @a) = @$call; my $r = syscall($n, @a); my $e = $! + 0; print \"$r $e\\n\"; }}"
    );
    if !has_sandbox().await {
        return;
    }
    if !std::path::Path::new("/usr/bin/perl").exists() {
        return eprintln!("SKIPPED, not shown here: no perl to make system calls with");
    }
    let command = nexus_process::sandbox::SandboxCommand::new(["/usr/bin/perl", "-e", &script]);
    let outcome = super::support::ran(&sandbox(), command).await;
    assert_eq!(outcome.stdout.text(), "-1 38\n".repeat(8), "{}", outcome.stderr.text());
}
