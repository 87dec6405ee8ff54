#pragma once

#include <string>
#include <vector>

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace stages {

// Ranks that exit, or that have lost contact with another rank, leave messages for each other in
// the store of their rendezvous, which rank 0 serves.

/// Records why rank `own` exits. Throws std::exception if rank 0 has exited.
void say_why(c10d::Store& store, int own, const std::string& reason);

/// Waits until the other ranks of `size` have read why `own` exits, for two seconds at most.
void wait_until_heard(c10d::Store& store, int own, int size);

/// What a rank that has lost contact finds out about the other ranks.
struct LostRanks {
  std::string reason;       ///< why one of them has exited; may be empty
  std::vector<int> silent;  ///< those that do not respond
};

/// Returns what the store says about the ranks other than `own`. If this rank `has_waited` for one
/// that may not respond, waits until the others have noticed it too. Does not wait for a store that
/// does not respond: rank 0 serves it, so rank 0 is then the silent one.
LostRanks find_lost_ranks(const c10::intrusive_ptr<c10d::Store>& store, int own, int size,
                          bool has_waited);

}  // namespace stages
