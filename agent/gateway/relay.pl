# Relays connections to 127.0.0.1:PORT to a Unix socket. Needs nothing but perl, which git brings.
use strict; use IO::Socket::INET; use IO::Socket::UNIX; use IO::Select;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
my ($path, $port) = @ARGV;
$SIG{CHLD} = 'IGNORE'; $SIG{PIPE} = 'IGNORE';
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port, Listen => 64,
  ReuseAddr => 1) or die "no port $port: $!\n";
while (my $near = $listener->accept) {
  next if fork;
  close $listener;
  setsockopt $near, IPPROTO_TCP, TCP_NODELAY, 1;  # headers and body come apart, and neither waits
  my $far = IO::Socket::UNIX->new(Peer => $path) or exit 1;
  my %other = ($near => $far, $far => $near);
  my $open = IO::Select->new($near, $far);
  while ($open->count) {
    for my $from ($open->can_read) {
      if (sysread $from, my $data, 65536) {
        for (my $at = 0; $at < length $data;) {
          my $sent = syswrite($other{$from}, $data, length($data) - $at, $at) or exit 0;
          $at += $sent;
        }
      } else { $open->remove($from); shutdown $other{$from}, 1; }
    }
  }
  exit 0;
}
