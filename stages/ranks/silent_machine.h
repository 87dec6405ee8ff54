#pragma once

#include <chrono>
#include <set>

namespace stages {

/// After this time without an answer, a machine counts as lost: it has no power or no network. It
/// still answers if only the process on it has ended or is stopped.
constexpr auto kSilence = std::chrono::seconds(30);

/// The TCP connections of this process, by descriptor.
std::set<int> open_connections();

/// From now on, connections that are not among `older` fail after kSilence. By default the kernel
/// waits for a quarter of an hour while it sends, and for ever while it receives.
void limit_silence(const std::set<int>& older);

}  // namespace stages
