#pragma once

#include <chrono>
#include <set>

namespace stages {

/// A machine that does not answer for this long counts as lost: it has lost power or its network
/// connection. If only a process on it has exited or is stopped, the machine still answers.
constexpr auto kSilence = std::chrono::seconds(30);

/// Returns the TCP connections of this process, as descriptors.
std::set<int> open_connections();

/// Sets a timeout on all connections except those in `older`: a connection fails if the other end
/// does not answer for kSilence. By default, the kernel waits a
/// quarter of an hour when sending, and forever when receiving.
void limit_silence(const std::set<int>& older);

}  // namespace stages
