# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_sockstamp_global_optspecs
    string join \n explain-words h/help V/version
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

complete -c sockstamp -n "__fish_sockstamp_needs_command" -l explain-words -d 'Explain the words of the output, on one page'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -s h -l help -d 'Print help'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -s V -l version -d 'Print version'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "stat" -d 'Print a table of the stages, their distributions and shares'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "stuck" -d 'List everything that waits now, the oldest first'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "trace" -d 'Print a line per message as it completes'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "top" -d 'Show live where the time goes, full screen'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "pcap" -d 'Write every packet of the target as pcapng, for Wireshark'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "explain" -d 'Find the stages that make slow messages slow'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "record" -d 'Record messages in Parquet files, one row each'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "report" -d 'Print the table of `stat` from recordings'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "diff" -d 'Find the stages that changed from one recording to another'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "join" -d 'Join the recordings of two hosts: each message from its send call to its read call'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "export" -d 'Convert recordings for other programs'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "recover" -d 'Cut recordings after their last complete row group'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "ping" -d 'Probe hosts; print round-trip times by kernel stamps, and the prober\'s own delay'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "fping" -d 'Probe hosts as fping does: its options, output and exit status, with the kernel\'s times'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "doctor" -d 'Show what this kernel and this process can measure, and what is missing'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "agent" -d 'Measure continuously, and serve metrics to Prometheus'
complete -c sockstamp -n "__fish_sockstamp_needs_command" -f -a "completions" -d 'Publish zerocopy completions and stamps in memory of the applications that register'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l expert -d 'Change how it measures: keys of docs/expert.md, such as entry=callback' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l sample -d 'Measure all messages, or some' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l max-cost -d 'Let measuring cost up to this share of one core: a percentage, or none' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l max-flows -d 'Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l max-memory -d 'Use up to this many megabytes of kernel memory for the state of connections and UDP sockets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l buffer -d 'Keep records of messages in this many megabytes of kernel memory until they are read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l nic-stamps -d 'Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of received packets, for `rx.nic`' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s d -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l slow -d 'Call a message slow if it took longer than this until it was sent, read or answered, or its connection opened' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l by -d 'Also sum messages in groups by these dimensions' -r -f -a "pid\t''
comm\t''
cgroup\t''
container\t''
port\t''
peer\t''
interface\t''
proto\t''
netns\t''
flow\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l top -d 'Print this many groups as text' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l sort -d 'Sort groups by this figure, the largest first' -r -f -a "count\t''
bytes\t''
total\t''
tx.copy\t''
tx.queue\t''
tx.qdisc\t''
tx.nic\t''
tx.network\t''
rx.nic\t''
rx.stack\t''
rx.hol\t''
rx.wakeup\t''
rx.app\t''
app.service\t''
peer.answer\t''
peer.rest\t''
client.pause\t''
client.request\t''
conn.handshake\t''
conn.accept\t''
net.forward\t''
net.back\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l repeat -d 'Measure N times, and print the mean of each figure with its standard error, as perf stat -r' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l interval -d 'Also print a table of each interval, while it measures: 100ms or longer' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'One JSON object, all times in nanoseconds'
csv\t'One line per stage, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s o -l output -d 'Write to this file; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l every -d 'Measure every message, as --sample all'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l host-path -d 'Follow packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l cumulative -d 'Print times from a read\'s RX stamp to each point on its path, under netstacklat\'s names'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -l why -d 'Below each diagnosis, print what stands behind it, how to check it, and its usual cure'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -s r -l read -d 'Read recordings, files or directories of `record`, and measure nothing' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l slow -d 'List what waits at least this long: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l interval -d 'The time between looks of --watch: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l for -d 'Look for this long before anything is listed: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l why -d 'Below each wait, print what stands behind it, how to check it, and its usual cure'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l fail -d 'Exit with status 3 if something waits at least this long'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l watch -d 'Look again and again until Ctrl-C'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand stuck" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s r -l read -d 'Read recordings, files or directories of `record`, and measure nothing' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l expert -d 'Change how it measures: keys of docs/expert.md, such as entry=callback' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l sample -d 'Measure all messages, or some' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l max-cost -d 'Let measuring cost up to this share of one core: a percentage, or none' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l max-flows -d 'Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l max-memory -d 'Use up to this many megabytes of kernel memory for the state of connections and UDP sockets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l buffer -d 'Keep records of messages in this many megabytes of kernel memory until they are read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l nic-stamps -d 'Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of received packets, for `rx.nic`' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s d -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l slow -d 'Keep only messages slower than this; every message is measured' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s c -l count -d 'Stop after N messages' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l format -d 'Output format: a line of text or a JSON object per message' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s o -l output -d 'Write to this file; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l every -d 'Measure every message, as --sample all'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -l host-path -d 'Follow packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand trace" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l expert -d 'Change how it measures: keys of docs/expert.md, such as entry=callback' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l sample -d 'Measure all messages, or some' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l max-cost -d 'Let measuring cost up to this share of one core: a percentage, or none' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l max-flows -d 'Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l max-memory -d 'Use up to this many megabytes of kernel memory for the state of connections and UDP sockets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l buffer -d 'Keep records of messages in this many megabytes of kernel memory until they are read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l nic-stamps -d 'Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of received packets, for `rx.nic`' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l slow -d 'Call a message slow if it took longer than this until it was sent, read or answered, or its connection opened' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l by -d 'Group messages by these dimensions, one row per group' -r -f -a "pid\t''
comm\t''
cgroup\t''
container\t''
port\t''
peer\t''
interface\t''
proto\t''
netns\t''
flow\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l interval -d 'Time between two updates: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l every -d 'Measure every message, as --sample all'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l host-path -d 'Follow packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -l once -d 'Print one screen as text after one interval, and exit'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s r -l read -d 'Read recordings, files or directories of `record`, and measure nothing' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s w -l write -d 'Write the packets of the target, or those of recordings, to this file; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l snaplen -d 'Write up to N bytes of each packet, from the IP header on [default: the headers alone]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l buffer -d 'Keep packets in this many megabytes of kernel memory until they are written' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s d -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s c -l count -d 'Stop after N packets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l all-stages -d 'Write each packet at each stage, on an interface of its own, such as eth0/sched'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand pcap" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -s r -l read -d 'Read recordings, files or directories of `record`, and measure nothing' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l expert -d 'Change how it measures: keys of docs/expert.md, such as entry=callback' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l sample -d 'Measure all messages, or some' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l max-cost -d 'Let measuring cost up to this share of one core: a percentage, or none' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l max-flows -d 'Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l max-memory -d 'Use up to this many megabytes of kernel memory for the state of connections and UDP sockets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l buffer -d 'Keep records of messages in this many megabytes of kernel memory until they are read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l nic-stamps -d 'Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of received packets, for `rx.nic`' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -s d -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l slow -d 'Call messages slow if they took longer than this: p75 to p99.999, or a time' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l least-share -d 'What takes less of the whole time is no finding: a percentage' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l least-time -d 'What takes less time is no finding: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l every -d 'Measure every message, as --sample all'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -l host-path -d 'Follow packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand explain" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l expert -d 'Change how it measures: keys of docs/expert.md, such as entry=callback' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l sample -d 'Measure all messages, or some' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l max-cost -d 'Let measuring cost up to this share of one core: a percentage, or none' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l max-flows -d 'Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l max-memory -d 'Use up to this many megabytes of kernel memory for the state of connections and UDP sockets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l buffer -d 'Keep records of messages in this many megabytes of kernel memory until they are read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l nic-stamps -d 'Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of received packets, for `rx.nic`' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -s d -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l slow -d 'Keep only messages slower than this; every message is measured' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -s c -l count -d 'Stop after N messages' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -s o -l output -d 'Write this new file, or files in this directory if it exists or ends with /' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l rotate-size -d 'In a directory: begin a new file when one has this many megabytes, packets included [default: 256]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l rotate-time -d 'In a directory: begin a new file after this time, 1s or longer [default: 60m]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l max-size -d 'Keep the recording below this many megabytes, packets included' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l min-free -d 'Stop when the file system has less than this many megabytes free' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l every -d 'Measure every message, as --sample all'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l host-path -d 'Follow packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l packets -d 'Also record each packet of the target, in a file next to each file of messages'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -l tag -d 'Tag TCP connections, for `join` where something between the hosts rewrites sequence numbers'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand record" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -s p -l pid -d 'Read only messages that these processes sent or read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l comm -d 'The same, for processes or threads of this name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l by -d 'Also sum messages in groups by these dimensions' -r -f -a "pid\t''
comm\t''
cgroup\t''
container\t''
port\t''
peer\t''
interface\t''
proto\t''
netns\t''
flow\t''
cpu\t''
size\t''
opened\t''
retransmitted\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l interval -d 'Sum messages in intervals of this length, which begin at multiples of it since 1970' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l top -d 'Print this many groups per interval as text' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l sort -d 'Sort groups by this figure, the largest first' -r -f -a "count\t''
bytes\t''
total\t''
tx.copy\t''
tx.queue\t''
tx.qdisc\t''
tx.nic\t''
tx.network\t''
rx.nic\t''
rx.stack\t''
rx.hol\t''
rx.wakeup\t''
rx.app\t''
app.service\t''
peer.answer\t''
peer.rest\t''
client.pause\t''
client.request\t''
conn.handshake\t''
conn.accept\t''
net.forward\t''
net.back\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'One JSON object, all times in nanoseconds'
csv\t'One line per stage, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -l html -d 'Write a page with figures to this file instead, or to - (standard output): at most 2 MB, which loads nothing' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -s o -l output -d 'Write to this file; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l before -d 'Several recordings of the same system, which tell how far such recordings lie apart' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l after -d 'Several recordings to compare these with; behind them a filter' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -s p -l pid -d 'Read only messages that these processes sent or read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l comm -d 'The same, for processes or threads of this name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l least-share -d 'What takes less of the whole time is no finding: a percentage' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l least-time -d 'What takes less time is no finding: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l fail-if -d 'Exit with status 3 if this holds beyond chance, such as \'tx.qdisc.p99 > +20%\'' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l first -d 'Several recordings of one host' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l second -d 'Several recordings of the other host; behind them a filter' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -s p -l pid -d 'Read only messages that these processes sent or read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l comm -d 'The same, for processes or threads of this name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l apart -d 'Allow the clocks of the hosts to differ by up to this time' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l slowest -d 'Print the stages of this many of the slowest messages of each direction' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l lives -d 'Write each joined message to this file, one JSON object per line; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -s o -l output -d 'Write the joined messages as a recording, for `report`, `explain`, `diff` and SQL' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l clocks -d 'Write the offsets of the clocks to this file, as CSV, for sql/join.sql; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l ptp -d 'Treat CLOCK_REALTIME of both hosts as equal, because PTP synchronizes it'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -l nat -d 'Find connections whose addresses NAT changes, by the numbers and lengths of their messages'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand join" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -l from -d 'Read only what was recorded then or later: a date and a time, UTC' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -l to -d 'Read only what was recorded before then' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -s p -l pid -d 'Read only messages that these processes sent or read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -l comm -d 'The same, for processes or threads of this name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -l slow -d 'Keep only messages slower than this' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -s o -l output -d 'Write to this file; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -l perfetto -d 'Write a trace for Perfetto (ui.perfetto.dev), with a slice per message, stage and part'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand export" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand recover" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l targets -d 'Read further hosts from this file, one per line; - is standard input' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l udp -d 'Send datagrams to this port; a reply or ICMP "port unreachable" is an answer' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l tcp -d 'Send SYNs to this port; a SYN-ACK or RST is an answer' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s c -l count -d 'Stop after N probes to each host' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s i -l interval -d 'Time between probes of one host; less than 2ms needs root (0: with each answer, as -f, but as much is printed)' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s w -l deadline -d 'Stop after this time, even if answers are outstanding' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s W -l timeout -d 'Count a probe as lost if it is not answered within this time (0: never); without it 1s, and a host that never answered is awaited for 3.2s after its last probe' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s s -l size -d 'Bytes of payload, for ICMP and UDP' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s t -l ttl -d 'TTL of IPv4, hop limit of IPv6' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s Q -l tos -d 'TOS of IPv4, traffic class of IPv6: a number, or 0x and hexadecimal digits' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s M -l pmtudisc -d 'When probes may be fragmented: never (do; probe: even above the known path MTU), by this host (want), by routers too (dont)' -r -f -a "do\t'Never'
probe\t'Never, and the known path MTU is not minded'
want\t'By this host, to the known path MTU'
dont\t'By routers, too'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s m -l mark -d 'Mark the packets of probes, for routes and firewalls' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s e -l identifier -d 'The identifier of echo requests; by default one that is not in use' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s S -l sndbuf -d 'Bytes of the sockets\' send buffers' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s I -l interface -d 'Send through this interface, or from this source address' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l netns -d 'Probe from each of these network namespaces: a name of ip-netns(8), or a process in it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l container -d 'Probe from the network namespaces of these containers, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s l -l preload -d 'Send N probes at once at the beginning, and keep N in flight with -f or -A' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s p -l pattern -d 'Fill the payload after its first 8 bytes with these: up to 16, as hexadecimal digits' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l retries -d 'Stop with the first answer of a host; probe it N times more without one' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l every -d 'Print a line with the counts and times so far to standard error at this interval' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l format -d 'Output format: a line of text or a JSON object per probe, and the summary' -r -f -a "text\t'For people, times with units'
json\t'JSON, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s 4 -d 'Use IPv4 only'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s 6 -d 'Use IPv6 only'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s D -l timestamps -d 'Begin each line with the time of day, in seconds since 1970'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s q -l quiet -d 'Print only the summary'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s a -l audible -d 'Ring the terminal\'s bell with each answer that has a line'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s n -d 'Accepted as ping\'s: addresses are never looked up as names'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s O -d 'Accepted as ping\'s: a lost probe always has a line'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s v -d 'Accepted as ping\'s: errors always have a line'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s U -d 'Accepted as ping\'s: the prober\'s delay is always printed'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l alive -d 'Print the addresses that answered, one per line, and nothing else'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l dead -d 'Print the addresses that did not answer, one per line, and nothing else'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s f -l flood -d 'Send the next probe when the last is answered, or after 10 ms; needs root'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s A -l adaptive -d 'Send the next probe when the last is answered, at the latest after the interval'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -l path -d 'Probe each hop of the path to the host: its times and loss, and the path MTU'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand ping" -s V -l version -d 'Print version'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s b -l size -d 'Bytes of payload' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s B -l backoff -d 'The timeout of each retry, as a multiple of its predecessor\'s' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s c -l count -d 'Send N probes to each host' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s C -l vcount -d 'The same, and print the time of each' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s f -l file -d 'Read the hosts from this file, one per line; - is standard input' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s H -l ttl -d 'TTL of IPv4, hop limit of IPv6' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s i -l interval -d 'Accepted as fping\'s: probes of different hosts are spread over the period' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s I -l iface -d 'Send through this interface' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s O -l tos -d 'TOS of IPv4, traffic class of IPv6' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s p -l period -d 'Time between probes of one host, with -c, -C or -l' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s Q -l squiet -d 'The same, with a summary of each SECS seconds' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s r -l retry -d 'Probe a host without an answer N times more' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s S -l src -d 'Use this source address' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s t -l timeout -d 'Time for an answer; without it 500, or with -c, -C or -l the period, at most 2000' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s x -l reachable -d 'Print whether at least N hosts answer' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s 4 -l ipv4 -d 'Use IPv4 only'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s 6 -l ipv6 -d 'Use IPv6 only'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s a -l alive -d 'Print the hosts that answer'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s A -l addr -d 'Print addresses in the place of names'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s D -l timestamp -d 'Begin the lines of probes with the time of day, in seconds since 1970'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s e -l elapsed -d 'Print the time of the answer'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s g -l generate -d 'Probe each address of a network, or from a first to a last one'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s l -l loop -d 'Probe until Ctrl-C'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s M -l dontfrag -d 'Set the Don\'t Fragment flag'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s N -l netdata -d 'Print for netdata; with -l and -Q'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s o -l outage -d 'Print the accumulated time without answers'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s q -l quiet -d 'Print neither hosts nor probes, but the summary'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s R -l random -d 'Accepted as fping\'s: 8 bytes of each probe are random'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s s -l stats -d 'Print statistics of all hosts at the end'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s u -l unreach -d 'Print the hosts that do not answer'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s v -l version -d 'Print the version'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand fping" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s p -l pid -d 'Messages that these processes send or read, on connections they opened, listened for or hold at the start; the end of the last one ends the measurement' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l comm -d 'The same, for processes of this name (as ps -C), including those that start later' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l cgroup -d 'Sockets made in this cgroup (version 2) or below: a directory, or a path from the mount point' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l container -d 'Sockets of this container (docker, containerd, CRI-O, podman) or systemd service, by a prefix of id or name' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l netns -d 'Sockets of these network namespaces: names of ip-netns(8), or processes in them' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s i -l interface -d 'Sockets whose route leaves by this interface, of this network namespace or that of --netns' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l expert -d 'Change how it measures: keys of docs/expert.md, such as entry=callback' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l sample -d 'Measure all messages, or some' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l max-cost -d 'Let measuring cost up to this share of one core: a percentage, or none' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l max-flows -d 'Measure up to N connections and UDP sockets at a time [default: limited by --max-memory]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l max-memory -d 'Use up to this many megabytes of kernel memory for the state of connections and UDP sockets' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l buffer -d 'Keep records of messages in this many megabytes of kernel memory until they are read' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l nic-stamps -d 'Ask NICs that stamp sends for stamps of some messages, for `tx.nic`, and use those of received packets, for `rx.nic`' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s d -l duration -d 'Stop after this time: a number with us, ms, s (default), m or h' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l slow -d 'Call a message slow if it took longer than this until it was sent, read or answered, or its connection opened' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l by -d 'Also sum messages in groups by these dimensions' -r -f -a "pid\t''
comm\t''
cgroup\t''
container\t''
port\t''
peer\t''
interface\t''
proto\t''
netns\t''
flow\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l top -d 'Print this many groups as text' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l sort -d 'Sort groups by this figure, the largest first' -r -f -a "count\t''
bytes\t''
total\t''
tx.copy\t''
tx.queue\t''
tx.qdisc\t''
tx.nic\t''
tx.network\t''
rx.nic\t''
rx.stack\t''
rx.hol\t''
rx.wakeup\t''
rx.app\t''
app.service\t''
peer.answer\t''
peer.rest\t''
client.pause\t''
client.request\t''
conn.handshake\t''
conn.accept\t''
net.forward\t''
net.back\t''"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l repeat -d 'Measure N times, and print the mean of each figure with its standard error, as perf stat -r' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l interval -d 'Also print a table of each interval, while it measures: 100ms or longer' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l format -d 'Output format' -r -f -a "text\t'For people, times with units'
json\t'One JSON object, all times in nanoseconds'
csv\t'One line per stage, all times in nanoseconds'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l color -d 'Use colours in text' -r -f -a "auto\t'In a terminal that has colours, unless NO_COLOR is set'
always\t'Everywhere, as for less -R'
never\t'Nowhere'"
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s o -l output -d 'Write to this file; - is standard output' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l nic -d 'Show this interface\'s NIC alone: what it can stamp, what is set, its clock, and who uses it' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l keep -d 'Go on after the last process of --pid has ended'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l new-only -d 'Ignore connections that exist at the start'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l every -d 'Measure every message, as --sample all'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l host-path -d 'Follow packets of containers and VPNs through this host to the last interface'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l cumulative -d 'Print times from a read\'s RX stamp to each point on its path, under netstacklat\'s names'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -l why -d 'Below each diagnosis, print what stands behind it, how to check it, and its usual cure'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand agent" -l config -d 'Read settings from this file, and reload it on SIGHUP; docs/agent.md lists them' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand agent" -l listen -d 'Serve HTTP at this address, instead of the file\'s [default: 127.0.0.1:9776]' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand agent" -l check -d 'Check the file of --config, and exit'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand agent" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l socket -d 'The Unix socket for applications; its directory is created if missing' -r -F
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l mode -d 'Permissions of the socket, in octal digits as for chmod(1)' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l group -d 'The group of the socket: a name or a number' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l applications -d 'Serve up to N applications at once, and as many areas of memory' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l per-user -d 'Serve up to N applications per user at once; memory that an earlier one keeps still counts' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l sockets -d 'Provide N slots for sockets per application, of 4672 bytes each' -r
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -l status -d 'Print the use of the running service, and exit'
complete -c sockstamp -n "__fish_sockstamp_using_subcommand completions" -s h -l help -d 'Print help (see more with \'--help\')'
