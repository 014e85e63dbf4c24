# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sockstamp_global_optspecs
    string join \n h/help V/version
end

function __fish_sockstamp_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_sockstamp_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_sockstamp_using_subcommand
    set -l cmd (__fish_sockstamp_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c sockstamp -n "__fish_sockstamp_needs_command" -s h -l help -d 'Print help'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -s V -l version -d 'Print version'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "stat" -d 'Count: a table of the stages, their distributions and shares'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "trace" -d 'Watch: a line for each message as it completes'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "top" -d 'Live: where the time goes, full screen'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "ping" -d 'Probe: round-trip times as the kernel saw them, and what the prober itself added'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "doctor" -d 'Look: what this kernel and this process can measure, and what is missing'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "completions" -d 'Serve: completions of zerocopy sends and stamps, in memory of the applications that ask for it'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s p -l pid -d 'Messages that these processes send or read, on connections they opened or listened for, or hold at the start' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l comm -d 'The same, of processes by name (as ps -C); also of those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount\'s root' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l container -d 'Sockets of this container: docker, containerd, CRI-O, podman or a systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l netns -d 'Sockets of this network namespace: a name of ip-netns(8), or a process in it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s i -l interface -d 'Sockets whose route leaves through this interface of our network namespace, or of that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l rate-cap -d 'Measure up to N messages a second of each flow and direction, and above that one of so many' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l sample -d 'Measure one message of N, whatever the rate' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l entry -d 'The hook that shows the entry of send calls' -r -f -a "auto\t'The tracepoint where the kernel has it'
tracepoint\t'A tracepoint that every send of the host passes'
callback\t'A callback of the selected sockets alone, several times a send'
off\t'None: tx.copy is absent'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l hooks -d 'The hooks that stamps come from' -r -f -a "best\t'The best that the kernel has'
older\t'Those for kernels before Linux 6.15, to compare them (fentry, and tracepoints that packets pass)'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l max-flows -d 'Measure messages of up to N TCP connections at one time [default: as many as the memory is for]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l max-memory -d 'Use up to so many megabytes of kernel memory for the state of TCP connections' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l duration -d 'Stop after this time: a number with ms, s (default) or m' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l by -d 'Sum messages by whose they are as well, in groups that differ in each of these' -r -f -a "pid\t''
comm\t''
cgroup\t''
container\t''
port\t''
peer\t''
interface\t''
flow\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l top -d 'How many groups to print as text, those with the most messages first' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l format -d 'How to print' -r -f -a "text\t'For people, times with units'
json\t'One JSON object, all times in nanoseconds'
csv\t'A line a stage, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s o -l output -d 'Print to this file' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l new-only -d 'Leave connections alone that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l every -d 'Measure every message'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l include-hol -d 'Count what a read waited for a missing segment as rx.stack, as if it were one time'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l exclude-hol -d 'Refuse reads that waited for a missing segment'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l host-path -d 'Follow the packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l no-sched -d 'Count what a reader that was woken waited for a CPU as rx.app, not as rx.wakeup'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l cumulative -d 'Print the times from a read\'s RX stamp to each point on its way, by netstacklat\'s names'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s p -l pid -d 'Messages that these processes send or read, on connections they opened or listened for, or hold at the start' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l comm -d 'The same, of processes by name (as ps -C); also of those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount\'s root' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l container -d 'Sockets of this container: docker, containerd, CRI-O, podman or a systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l netns -d 'Sockets of this network namespace: a name of ip-netns(8), or a process in it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s i -l interface -d 'Sockets whose route leaves through this interface of our network namespace, or of that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l rate-cap -d 'Measure up to N messages a second of each flow and direction, and above that one of so many' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l sample -d 'Measure one message of N, whatever the rate' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l entry -d 'The hook that shows the entry of send calls' -r -f -a "auto\t'The tracepoint where the kernel has it'
tracepoint\t'A tracepoint that every send of the host passes'
callback\t'A callback of the selected sockets alone, several times a send'
off\t'None: tx.copy is absent'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l hooks -d 'The hooks that stamps come from' -r -f -a "best\t'The best that the kernel has'
older\t'Those for kernels before Linux 6.15, to compare them (fentry, and tracepoints that packets pass)'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l max-flows -d 'Measure messages of up to N TCP connections at one time [default: as many as the memory is for]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l max-memory -d 'Use up to so many megabytes of kernel memory for the state of TCP connections' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l duration -d 'Stop after this time: a number with ms, s (default) or m' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l slower-than -d 'Show only messages that took longer than this in all; every message is measured' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l format -d 'How to print: a line of text or a JSON object for each message' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s o -l output -d 'Print to this file' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l new-only -d 'Leave connections alone that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l every -d 'Measure every message'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l include-hol -d 'Count what a read waited for a missing segment as rx.stack, as if it were one time'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l exclude-hol -d 'Refuse reads that waited for a missing segment'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l host-path -d 'Follow the packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l no-sched -d 'Count what a reader that was woken waited for a CPU as rx.app, not as rx.wakeup'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -s p -l pid -d 'Messages that these processes send or read, on connections they opened or listened for, or hold at the start' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l comm -d 'The same, of processes by name (as ps -C); also of those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount\'s root' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l container -d 'Sockets of this container: docker, containerd, CRI-O, podman or a systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l netns -d 'Sockets of this network namespace: a name of ip-netns(8), or a process in it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -s i -l interface -d 'Sockets whose route leaves through this interface of our network namespace, or of that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l rate-cap -d 'Measure up to N messages a second of each flow and direction, and above that one of so many' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l sample -d 'Measure one message of N, whatever the rate' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l entry -d 'The hook that shows the entry of send calls' -r -f -a "auto\t'The tracepoint where the kernel has it'
tracepoint\t'A tracepoint that every send of the host passes'
callback\t'A callback of the selected sockets alone, several times a send'
off\t'None: tx.copy is absent'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l hooks -d 'The hooks that stamps come from' -r -f -a "best\t'The best that the kernel has'
older\t'Those for kernels before Linux 6.15, to compare them (fentry, and tracepoints that packets pass)'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l max-flows -d 'Measure messages of up to N TCP connections at one time [default: as many as the memory is for]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l max-memory -d 'Use up to so many megabytes of kernel memory for the state of TCP connections' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l by -d 'What a row is: messages that have each of these in common' -r -f -a "pid\t''
comm\t''
cgroup\t''
container\t''
port\t''
peer\t''
interface\t''
flow\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l interval -d 'Time between two pictures: a number with ms, s (default) or m' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l duration -d 'Stop after this time: a number with ms, s (default) or m' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l new-only -d 'Leave connections alone that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l every -d 'Measure every message'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l include-hol -d 'Count what a read waited for a missing segment as rx.stack, as if it were one time'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l exclude-hol -d 'Refuse reads that waited for a missing segment'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l host-path -d 'Follow the packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l no-sched -d 'Count what a reader that was woken waited for a CPU as rx.app, not as rx.wakeup'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l once -d 'Print one screen as text after one interval, and stop'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l no-color -d 'Use no colours'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l targets -d 'Read further hosts from this file, one a line; - is standard input' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l udp -d 'Send datagrams to this port: a reply answers, and so does ICMP\'s "port unreachable"' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l tcp -d 'Send SYNs to this port: a SYN-ACK answers, and so does a RST' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s c -l count -d 'Stop after N probes to each host' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s i -l interval -d 'From one probe of a host to its next; less than 2ms is root\'s alone' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s w -l deadline -d 'Stop after this time, whatever is still under way' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s W -l timeout -d 'A probe that is not answered after this time is lost' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s s -l size -d 'Bytes of payload, of ICMP and UDP' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s t -l ttl -d 'TTL of IPv4, hop limit of IPv6' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s Q -l tos -d 'TOS of IPv4, traffic class of IPv6: a number, or 0x and hexadecimal digits' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s I -l interface -d 'Send by this interface, or from this source address' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l netns -d 'Probe from this network namespace: a name of ip-netns(8), or a process in it; of several, from each' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l container -d 'Probe from the network namespace of this container, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s 4 -d 'Use IPv4 alone'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s 6 -d 'Use IPv6 alone'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s D -l timestamps -d 'Begin each line with the time of day, in seconds since 1970'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s q -l quiet -d 'Print the summary alone'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s f -l flood -d 'Send the next probe as soon as the last is answered, or after 10 ms; root only'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l json -d 'Print a JSON object for each probe, and the summary as the last one; all times in nanoseconds'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s p -l pid -d 'Messages that these processes send or read, on connections they opened or listened for, or hold at the start' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l comm -d 'The same, of processes by name (as ps -C); also of those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount\'s root' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l container -d 'Sockets of this container: docker, containerd, CRI-O, podman or a systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l netns -d 'Sockets of this network namespace: a name of ip-netns(8), or a process in it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s i -l interface -d 'Sockets whose route leaves through this interface of our network namespace, or of that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l rate-cap -d 'Measure up to N messages a second of each flow and direction, and above that one of so many' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l sample -d 'Measure one message of N, whatever the rate' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l entry -d 'The hook that shows the entry of send calls' -r -f -a "auto\t'The tracepoint where the kernel has it'
tracepoint\t'A tracepoint that every send of the host passes'
callback\t'A callback of the selected sockets alone, several times a send'
off\t'None: tx.copy is absent'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l hooks -d 'The hooks that stamps come from' -r -f -a "best\t'The best that the kernel has'
older\t'Those for kernels before Linux 6.15, to compare them (fentry, and tracepoints that packets pass)'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l max-flows -d 'Measure messages of up to N TCP connections at one time [default: as many as the memory is for]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l max-memory -d 'Use up to so many megabytes of kernel memory for the state of TCP connections' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l format -d 'How to print' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l new-only -d 'Leave connections alone that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l every -d 'Measure every message'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l include-hol -d 'Count what a read waited for a missing segment as rx.stack, as if it were one time'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l exclude-hol -d 'Refuse reads that waited for a missing segment'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l host-path -d 'Follow the packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l no-sched -d 'Count what a reader that was woken waited for a CPU as rx.app, not as rx.wakeup'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l socket -d 'The Unix socket that applications connect to; its directory is made if there is none' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l mode -d 'Who may connect, as chmod(1) has it in digits' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l group -d 'The group of the socket: a name or a number' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l applications -d 'Serve up to N applications at once, and give out memory for as many' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l per-user -d 'Serve up to N applications of one user at once; memory of former ones counts while somebody keeps it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l sockets -d 'Have room for N sockets of each application, of 4672 bytes each' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l status -d 'Print how much of the service that runs is in use, and end'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
