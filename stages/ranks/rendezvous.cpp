#include "stages/ranks/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include <ATen/Version.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/parse_json.h"
#include "stages/ranks/network_address.h"
#include "stages/ranks/silent_machine.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using Store = c10::intrusive_ptr<c10d::Store>;
using Clock = std::chrono::steady_clock;

/// Any machine that is up responds within this time.
constexpr std::chrono::milliseconds kTry = std::chrono::seconds(5);

constexpr std::size_t kMostDifferences = 10;
constexpr std::size_t kLongestValue = 60;

runner::StageError no_meeting(std::string message, std::string help) {
  return runner::StageError(runner::ErrorCode::kNoMeeting, std::move(message))
      .with_help(std::move(help));
}

std::string address(const runner::Meeting& meeting) {
  return meeting.host + ":" + std::to_string(meeting.port);
}

std::string this_host() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "an unknown machine";
}

std::string this_process() { return "process " + std::to_string(getpid()) + " on " + this_host(); }

// Keys in the store. The first two end with a rank's number.
const std::string kSeat = "seat-";      ///< how many processes have joined as this rank
const std::string kHolder = "holder-";  ///< the first of these, as returned by this_process()
const std::string kGaveUp = "gave-up";  ///< which rank has given up waiting: "rank 0 waited 60 s"

constexpr const char* kStartTogether =
    "start all ranks with the same command at the same time; to wait longer, raise "
    "RETORT_MEETING_SECONDS";

/// A rank that is joining the meeting.
class Guest {
 public:
  Guest(const runner::RankOfRun& own, const runner::Meeting& meeting,
        const std::function<bool()>& is_canceled)
      : own_(own),
        meeting_(meeting),
        is_canceled_(is_canceled),
        deadline_(Clock::now() + std::chrono::seconds(meeting.seconds)) {}

  Store connect() const {
    if (!meeting_.file.empty())
      return c10::make_intrusive<c10d::FileStore>(meeting_.file.string(), own_.size);
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(meeting_.port);
    options.isServer = serves();
    options.numWorkers = static_cast<std::size_t>(own_.size);
    options.waitWorkers = false;
    for (;;) {
      options.timeout = next_try(deadline_);
      try {
        const auto store = c10::make_intrusive<c10d::TCPStore>(meeting_.host, options);
        store->setTimeout(std::chrono::seconds(meeting_.seconds));
        // A store served by torchrun outlives this launch of the job.
        const std::string prefix = meeting_.is_served ? "retort/" + meeting_.job : "retort";
        return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
      } catch (const c10::Error& error) {
        if (serves() || Clock::now() >= deadline_)
          throw not_connected(error.what_without_backtrace());
      }
    }
  }

  /// Announces this rank, and waits until all other ranks have announced themselves.
  void take_seat(const Store& store) const {
    check_job(store);
    check_size(store);
    refuse_incomplete(store, "rank " + std::to_string(own_.rank) + " joined too late");
    if (store->add(kSeat + std::to_string(own_.rank), 1) > 1) throw already_joined(store);
    store->set(kHolder + std::to_string(own_.rank), this_process());
    const std::vector<int> absent = wait_for_all(store, kSeat, deadline_);
    if (absent.empty()) return;
    store->set(kGaveUp, "rank " + std::to_string(own_.rank) + " waited " +
                            std::to_string(meeting_.seconds) + " s");
    throw missing(absent);
  }

  /// Returns the strings that the ranks pass under this name, in rank order.
  std::vector<std::string> exchange(const Store& store, const std::string& name,
                                    const std::string& own) const {
    store->set(name + std::to_string(own_.rank), own);
    const auto deadline = Clock::now() + std::chrono::seconds(meeting_.seconds);
    const std::vector<int> silent_ranks = wait_for_all(store, name, deadline);
    if (!silent_ranks.empty()) {
      refuse_incomplete(store, "not all ranks joined in time");
      throw silent(silent_ranks);
    }
    std::vector<std::string> all;
    for (int rank = 0; rank < own_.size; ++rank)
      all.push_back(store->get_to_str(name + std::to_string(rank)));
    stay_for_others(store, name);
    return all;
  }

  runner::StageError lost_first(const std::string& reason) const {
    return no_meeting("rank " + std::to_string(own_.rank) + " has lost contact with rank 0 at " +
                          where() +
                          " before all ranks had joined: " + reason.substr(0, reason.find('\n')),
                      "see rank 0's error");
  }

 private:
  /// Keeps rank 0 alive until all ranks have read the exchanged strings, since these may make it
  /// exit.
  void stay_for_others(const Store& store, const std::string& name) const {
    const auto read_by = [&](int rank) { return name + "read-" + std::to_string(rank); };
    store->set(read_by(own_.rank), "");
    if (own_.rank > 0) return;
    std::vector<std::string> all;
    for (int rank = 1; rank < own_.size; ++rank) all.push_back(read_by(rank));
    try {
      store->wait(all, kTry);
    } catch (const c10::Error&) {  // a rank has exited, which the process group will notice
    }
  }

  bool serves() const { return own_.rank == 0 && !meeting_.is_served; }
  /// Returns how long to wait before checking is_canceled() again.
  std::chrono::milliseconds next_try(Clock::time_point deadline) const {
    if (is_canceled_()) throw runner::Canceled{};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    return std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(1), kTry);
  }

  /// Waits until the store has a key that begins with `name` for every rank. Returns the ranks that
  /// have no key when the time is up.
  std::vector<int> wait_for_all(const Store& store, const std::string& name,
                                Clock::time_point deadline) const {
    std::vector<std::string> keys;
    for (int rank = 0; rank < own_.size; ++rank) keys.push_back(name + std::to_string(rank));
    for (;;) {
      try {
        store->wait(keys, next_try(deadline));
        return {};
      } catch (const c10::DistNetworkError&) {
        throw;  // rank 0, which serves the store, has exited
      } catch (const c10::Error&) {
        if (Clock::now() < deadline) continue;
      }
      std::vector<int> without;
      for (int rank = 0; rank < own_.size; ++rank) {
        if (!store->check({keys[static_cast<std::size_t>(rank)]})) without.push_back(rank);
      }
      return without;
    }
  }

  /// Throws if a rank has given up waiting for the others, and has exited.
  void refuse_incomplete(const Store& store, const std::string& what) const {
    if (!store->check({kGaveUp})) return;
    throw no_meeting(what + ": " + store->get_to_str(kGaveUp) + " for all " +
                         std::to_string(own_.size) + " ranks at " + where() + ", and has exited",
                     kStartTogether);
  }
  std::string where() const {
    return meeting_.file.empty() ? address(meeting_) : "'" + meeting_.file.string() + "'";
  }

  runner::StageError not_connected(const std::string& reason) const {
    const std::string first_line = reason.substr(0, reason.find('\n'));
    const bool is_taken =
        reason.find("EADDRINUSE") != reason.npos || reason.find("already in use") != reason.npos;
    if (serves() && is_taken)
      return no_meeting("port " + std::to_string(meeting_.port) +
                            " on this machine is in use, so rank 0 cannot listen on it",
                        "set another MASTER_PORT for all ranks");
    if (serves())
      return no_meeting("rank 0 cannot listen at " + address(meeting_) + ": " + first_line,
                        "set MASTER_ADDR to a name or an address of this machine");
    if (!is_known_host(meeting_.host))
      return no_meeting("rank " + std::to_string(own_.rank) + " cannot find rank 0's machine: '" +
                            meeting_.host + "' has no known address",
                        "set MASTER_ADDR to a name or an address of rank 0's machine");
    return no_meeting("rank " + std::to_string(own_.rank) + " did not find rank 0 at " +
                          address(meeting_) + " within " + std::to_string(meeting_.seconds) +
                          " s: " + first_line,
                      "start all ranks at the same time; MASTER_ADDR must be an address at which "
                      "the other ranks can reach rank 0's machine");
  }

  /// Returns the value that the first rank has set for `key`; this rank sets `own` if it is the
  /// first.
  static std::string of_first(const Store& store, const std::string& key, const std::string& own) {
    const auto bytes = [](const std::string& value) {
      return std::vector<std::uint8_t>(value.begin(), value.end());
    };
    const std::vector<std::uint8_t> found = store->compareSet(key, bytes(""), bytes(own));
    return {found.begin(), found.end()};
  }

  void check_job(const Store& store) const {
    if (meeting_.job.empty()) return;
    const std::string first = of_first(store, "job", meeting_.job);
    if (first != meeting_.job)
      throw no_meeting("the ranks at " + where() + " belong to another job, '" + first +
                           "', not to '" + meeting_.job + "'",
                       "set MASTER_ADDR to the machine of this job's rank 0, or use another "
                       "MASTER_PORT");
  }

  void check_size(const Store& store) const {
    if (!meeting_.file.empty()) return;
    const std::string own = std::to_string(own_.size), first = of_first(store, "size", own);
    if (first != own)
      throw no_meeting("rank " + std::to_string(own_.rank) + " was started as one of " + own +
                           " ranks, but the first to join at " + where() + " as one of " + first,
                       "start all ranks with the same WORLD_SIZE");
  }

  runner::StageError already_joined(const Store& store) const {
    std::string process = "another process";
    try {
      const std::string holder = kHolder + std::to_string(own_.rank);
      store->wait({holder}, kTry);
      process = store->get_to_str(holder);
    } catch (const c10::Error&) {  // the rank exited before it set this key
    }
    return no_meeting(
        "rank " + std::to_string(own_.rank) + " has already joined at " + where() + " as " +
            process + ": two processes have this RANK, or " +
            (meeting_.is_served ? "an earlier command of this launch used it"
                                : "a process from an earlier launch is still running"),
        meeting_.is_served
            ? "give every process its own RANK, and start one `retort` command per launch"
            : "give every process its own RANK, and every launch its own MASTER_PORT");
  }

  runner::StageError missing(const std::vector<int>& ranks) const {
    return no_meeting(named(ranks) + " of " + std::to_string(own_.size) + " did not reach " +
                          where() + " within " + std::to_string(meeting_.seconds) + " s",
                      kStartTogether);
  }

  runner::StageError silent(const std::vector<int>& ranks) const {
    return no_meeting(named(ranks) + " joined at " + where() + ", but did not respond within " +
                          std::to_string(meeting_.seconds) + " s",
                      "see that rank's output: its process may have been killed or stopped");
  }

  static std::string named(const std::vector<int>& ranks) {
    std::vector<std::string> numbers;
    for (const int rank : ranks) numbers.push_back(std::to_string(rank));
    return (ranks.size() == 1 ? "rank " : "ranks ") + runner::listed(numbers, 16);
  }

  const runner::RankOfRun& own_;
  const runner::Meeting& meeting_;
  const std::function<bool()>& is_canceled_;
  const Clock::time_point deadline_;
};

/// Returns this machine's address, as chosen by the user or implied by rank 0's address.
std::string first_address(const runner::Meeting& meeting) {
  if (!meeting.file.empty()) return kLoopback;
  const char* const name = std::getenv("GLOO_SOCKET_IFNAME");
  if (!name || !*name) return interface_toward(meeting.host);
  std::string found = address_of_interface(name);
  if (!found.empty()) return found;
  throw no_meeting(
      "GLOO_SOCKET_IFNAME is '" + std::string(name) +
          "', but this machine has no network interface of that name with an IPv4 address",
      "choose one that `ip address` lists");
}

/// Returns the address at which the other ranks reach this one. A machine's own name may resolve to
/// its loopback interface, so the route to another machine determines the address.
std::string own_address(const Guest& guest, const Store& store, std::string own) {
  const std::vector<std::string> all = guest.exchange(store, "address-", own);
  const auto other = std::ranges::find_if_not(all, is_loopback);
  if (is_loopback(own) && other != all.end()) own = interface_toward(*other);
  return own.empty() ? kLoopback : own;
}

std::string text_of_trait(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongestValue) text = text.substr(0, kLongestValue) + "…";
  return text;
}

void check_traits(const std::vector<std::string>& all) {
  std::vector<std::string> found;
  const Json first = runner::parse_json<Json>(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Json other = runner::parse_json<Json>(all[rank]);
    const std::string who = "rank " + std::to_string(rank) + " on " + other.value("host", "?");
    for (const std::string& line : differences(first, other)) found.push_back(who + ": " + line);
  }
  if (found.empty()) return;
  if (found.size() > kMostDifferences) found.resize(kMostDifferences);
  const bool has_other_kernels = std::ranges::any_of(
      found, [](const std::string& line) { return line.find(": kernels is") != line.npos; });
  throw no_meeting("the ranks differ: " + runner::join(found, "; "),
                   has_other_kernels
                       ? "set ATEN_CPU_CAPABILITY=avx2 for all ranks, so that different processors "
                         "use the same kernels"
                       : "run the same command with the same programs on all machines");
}

}  // namespace

Json traits_of(const runner::Graph& graph, const Json& versions) {
  Json nodes = Json::object();
  for (const runner::Node& node : graph.nodes) {
    Json own = {{"kind", node.kind}, {"options", runner::to_json(node.options)}};
    if (!node.code.empty()) own["code"] = node.code;
    nodes[node.id] = std::move(own);
  }
  Json traits = {{"host", this_host()},
                 {"retort", runner::build_id()},
                 {"libtorch", versions.value("libtorch", "")},
                 {"kernels", at::get_cpu_capability()},
                 {"seed", graph.seed},
                 {"determinism", runner::name(graph.determinism)},
                 {"ranks", graph.ranks},
                 {"recipe", std::move(nodes)}};
  if (versions.contains("python")) traits["python"] = versions["python"];
  return traits;
}

std::vector<std::string> differences(const Json& first, const Json& own) {
  std::vector<std::string> found;
  const Json before = first.flatten(), after = own.flatten();
  const auto value = [](const Json& of, const std::string& key) {
    const auto at = of.find(key);
    return at == of.end() ? std::string("missing") : text_of_trait(*at);
  };
  const auto compare = [&](const std::string& key) {
    if (key == "/host" || found.size() == kMostDifferences) return;
    found.push_back(key.substr(1) + " is " + value(after, key) + ", but " + value(before, key) +
                    " on rank 0");
  };
  for (const auto& [key, at] : before.items()) {
    const auto other = after.find(key);
    if (other == after.end() || *other != at) compare(key);
  }
  for (const auto& [key, at] : after.items()) {
    if (!before.contains(key)) compare(key);
  }
  return found;
}

std::unique_ptr<RankGroup> meet_ranks(const runner::RankOfRun& own, const runner::Meeting& meeting,
                                      const Json& traits, const std::function<bool()>& is_canceled,
                                      std::chrono::seconds timeout) {
  const Guest guest(own, meeting, is_canceled);
  const std::set<int> older = open_connections();
  std::string address = first_address(meeting);
  const Store store = guest.connect();
  try {
    guest.take_seat(store);
    check_traits(guest.exchange(store, "traits-", traits.dump()));
    address = own_address(guest, store, std::move(address));
  } catch (const c10::Error& error) {
    throw guest.lost_first(error.what_without_backtrace());
  }
  auto group = std::make_unique<RankGroup>(own.rank, own.size, store, address, timeout);
  limit_silence(older);
  return group;
}

}  // namespace stages
