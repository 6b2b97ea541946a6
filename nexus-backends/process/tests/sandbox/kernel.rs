//! What a program in a sandbox can do to the kernel, and learn from it.

use crate::support::{has_sandbox, said, sandbox};

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

/// A keyring is inherited over every namespace.
#[tokio::test]
async fn no_key_of_the_session_is_reached() {
    // Source: `asm/unistd_64.h`; `asm-generic/unistd.h`. Searches the session's keyring (-3), then asks for its description.
    let [keyctl, add_key] = if cfg!(target_arch = "x86_64") { [250, 248] } else { [219, 217] };
    let script = format!(
        "for my $call ([{keyctl}, 6, -3, 0, 0], [{keyctl}, 1, 0, 0, 0], [{add_key}, 0, 0, 0, 0, -3]) \
         {{ my ($n, @a) = @$call; my $r = syscall($n, @a); my $e = $! + 0; print \"$r $e\\n\"; }}"
    );
    if !has_sandbox().await {
        return;
    }
    if !std::path::Path::new("/usr/bin/perl").exists() {
        return eprintln!("SKIPPED, not shown here: no perl to make system calls with");
    }
    let command = nexus_process::sandbox::SandboxCommand::new(["/usr/bin/perl", "-e", &script]);
    let outcome = crate::support::ran(&sandbox(), command).await;
    assert_eq!(outcome.stdout.text(), "-1 38\n".repeat(3), "{}", outcome.stderr.text());
}
