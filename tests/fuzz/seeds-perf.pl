#!/usr/bin/perl
# seeds-perf.pl - writes the seeds of fuzz-ring and fuzz-record: perl tests/fuzz/seeds-perf.pl tests/fuzz/corpus
# The layouts of the inputs are described at the top of the two .c files.
use strict;
use warnings;

my $dir = shift or die "usage: $0 CORPUS-FOLDER\n";

sub save { my ($name, $bytes) = @_; open(my $f, '>:raw', "$dir/$name") or die "$name: $!\n"; print $f $bytes; close $f; }
sub record { my ($type, $misc, $body) = @_; return pack('LSS', $type, $misc, 8 + length $body) . $body; }
sub text { my $t = shift . "\0"; return $t . "\0" x (-length($t) % 8); }
# a turn of fuzz-ring: the head moves over these bytes
sub turn { my $bytes = shift; return pack('sC', length($bytes) / 8, 0) . $bytes; }

my @samples = map { record(9, 2, pack('QQ', 0x400000 + $_, $_)) } 1 .. 30;
my $comm = record(3, 0, pack('LL', 1, 1) . text('comm') . pack('Q', 3));
save('ring/samples', pack('CC', 0x04, 3) . turn(join '', @samples[0 .. 9]) . turn(join '', @samples[10 .. 29]));
save('ring/wraps', pack('CC', 0xc4, 5) . join '', map { turn(record(9, 2, pack('QQ', 1, 2) . "\0" x 200)) } 1 .. 6);
save('ring/merge', pack('CC', 0x05, 0) . turn($samples[2] . $samples[1] . $comm) . turn($samples[3]) . turn(''));
save('ring/merge-no-trailer', pack('CC', 0x01, 0) . turn($samples[2] . $comm . $samples[0]));
save('ring/size-0', pack('CC', 0, 0) . turn($samples[0] . pack('LSS', 9, 0, 0)));
save('ring/size-past-head', pack('CC', 0, 0) . turn($samples[0] . pack('LSS', 9, 0, 64)));
save('ring/size-odd', pack('CC', 0, 0) . turn(pack('LSS', 9, 0, 12) . "\0" x 16));
save('ring/head-back', pack('CC', 0, 0) . turn($samples[0]) . pack('sC', -3, 0));
save('ring/head-far', pack('CC', 0, 0) . pack('sC', 65, 0) . 'x' x 16);
save('ring/head-odd', pack('CC', 0, 0) . pack('sC', 12, 1) . $samples[0]);
save('ring/short-sample', pack('CC', 0x01, 0) . turn(record(9, 0, '')));

# sample_type bits
my %bit = (ip => 0, tid => 1, time => 2, addr => 3, read => 4, chain => 5, id => 6, cpu => 7, period => 8, stream => 9,
	raw => 10, branch => 11, regs => 12, stack => 13, weight => 14, identifier => 16, intr => 18, cgroup => 21, aux => 20);
sub layout {
	my ($fields, $format, $flags) = @_;
	my $type = 0;
	$type |= 1 << $bit{$_} for split ' ', $fields;
	return pack('LLLLLC', $type, $format, 0x7, 0x3, 1 << 17, $flags);
}
my $fixed = pack('QQLLQLLQ', 7, 0x401000, 10, 11, 5000, 1, 0, 1001001);
save('record/ours', layout('identifier ip tid time cpu period read chain regs stack', 8, 1)
	. record(9, 2, $fixed . pack('QQQ', 2, 5, 6) . pack('QQQ', 2, -128, 1 << 40) . pack('QQQQ', 2, 1, 2, 3) . pack('QQQQ', 16, 8, 9, 12)));
save('record/no-stack', layout('identifier ip tid time cpu period regs stack', 0, 1) . record(9, 1, $fixed . pack('QQ', 0, 0)));
save('record/all', layout('ip chain raw branch regs stack weight intr cgroup aux', 0, 1)
	. record(9, 2, pack('Q', 1) . pack('QQ', 1, 2) . pack('LL', 4, 0) . pack('QQQQQ', 1, 0, 1, 2, 3) . pack('QQQQ', 1, 1, 2, 3)
		. pack('QQQ', 8, 1, 8) . pack('Q', 5) . pack('QQQ', 2, 1, 2) . pack('Q', 9) . pack('QQ', 8, 1)));
save('record/read-all', layout('read', 0x1f, 0) . record(9, 2, pack('Q*', 2, 100, 90, 1, 2, 3, 4, 5, 6)));
save('record/chain-lies', layout('chain', 0, 0) . record(9, 2, pack('QQ', 1 << 61, 1)));
my $trailer = pack('LLQLLQ', 10, 11, 5000, 1, 0, 7);
my $event = layout('identifier ip tid time cpu', 0, 3);
save('record/mmap2', $event . record(10, 2, pack('LLQQQLLQQLL', 10, 11, 0x1000, 0x1000, 0, 8, 1, 99, 0, 5, 2) . text('/bin/x') . $trailer));
save('record/mmap2-build-id', $event . record(10, 1 << 14 | 2, pack('LLQQQCxxxa20LL', 10, 11, 0x1000, 0x1000, 0, 20, 'b' x 20, 5, 2) . text('/bin/x') . $trailer));
save('record/comm', $event . record(3, 1 << 13, pack('LL', 10, 11) . text('name') . $trailer));
save('record/fork', $event . record(7, 0, pack('LLLLQ', 20, 21, 22, 23, 4999) . $trailer));
save('record/lost', $event . record(2, 0, pack('QQ', 7, 3) . $trailer));
save('record/throttle', $event . record(5, 0, pack('QQQ', 4999, 7, 7) . $trailer));
save('record/ksymbol', $event . record(17, 0, pack('QLSS', 1 << 40, 64, 1, 1) . text('bpf_prog') . $trailer));
save('record/cgroup', $event . record(19, 0, pack('Q', 77) . text('/a') . $trailer));
