#pragma once

#include <csignal>

/// Programs that include this file ignore SIGPIPE, as workers do: a rank that ends closes
/// connections to which other ranks may still write.
inline const bool is_sigpipe_ignored = std::signal(SIGPIPE, SIG_IGN) != SIG_ERR;
