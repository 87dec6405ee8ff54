#include "stages/ranks/lost_ranks.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace stages {
namespace {

std::string reason_of(int rank) { return "reason-" + std::to_string(rank); }
std::string heard_by(int rank) { return "heard-" + std::to_string(rank); }
std::string presence_of(int rank) { return "present-" + std::to_string(rank); }

/// Returns "rank 1: reason", or the reason if it begins with the rank.
std::string said_by(int rank, const std::string& reason) {
  const std::string who = "rank " + std::to_string(rank);
  return reason.starts_with(who + " ") ? reason : who + ": " + reason;
}

/// How long an exiting rank waits for the other ranks to read the reason.
constexpr auto kLastWord = std::chrono::seconds(2);

/// If a rank does not respond, how long the other ranks wait for each other to find out which one
/// it is.
constexpr auto kRollCall = std::chrono::seconds(3);

/// Returns what the store says about the ranks other than `own`. If this rank `has_waited` for one
/// that may not respond, waits until the others have noticed it too.
LostRanks look_for_others(c10d::Store& store, int own, int size, bool has_waited) {
  LostRanks found;
  int awaited = -1;
  try {
    store.set(presence_of(own), "");
    const auto begin = std::chrono::steady_clock::now();
    for (int rank = 0; rank < size; ++rank) {
      if (rank == own) continue;
      if (store.check({reason_of(rank)}))
        found.reason = said_by(rank, store.get_to_str(reason_of(rank)));
      awaited = has_waited ? rank : -1;
      while (has_waited && !store.check({presence_of(rank)})) {
        if (std::chrono::steady_clock::now() - begin > kRollCall) {
          found.silent.push_back(rank);
          break;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
      awaited = -1;
    }
    store.set(heard_by(own), "");
  } catch (const std::exception&) {
    // Rank 0, which serves the store, has exited, and did not find the awaited rank either.
    if (awaited > 0) found.silent.push_back(awaited);
  }
  return found;
}

}  // namespace

void say_why(c10d::Store& store, int own, const std::string& reason) {
  store.set(reason_of(own), reason);
}

void wait_until_heard(c10d::Store& store, int own, int size) {
  std::vector<std::string> heard;
  for (int rank = 0; rank < size; ++rank) {
    if (rank != own) heard.push_back(heard_by(rank));
  }
  try {
    store.wait(heard, kLastWord);
  } catch (const std::exception&) {  // the others have exited, or are not waiting
  }
}

LostRanks find_lost_ranks(const c10::intrusive_ptr<c10d::Store>& store, int own, int size,
                          bool has_waited) {
  std::packaged_task<LostRanks()> task(
      [store, own, size, has_waited] { return look_for_others(*store, own, size, has_waited); });
  std::future<LostRanks> answer = task.get_future();
  std::thread(std::move(task)).detach();  // ends with the process if the store never responds
  if (answer.wait_for(2 * kRollCall) != std::future_status::ready) return {.silent = {0}};
  try {
    return answer.get();
  } catch (const std::exception&) {  // rank 0, which serves the store, has exited without a reason
    return {};
  }
}

}  // namespace stages
