#include "stages/ranks/rendezvous.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
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

#include "runner/shared/disk/descriptor.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/protocol/event.h"
#include "runner/shared/text/join.h"
#include "runner/shared/value/parse_json.h"
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
      options.timeout = next_try();
      try {
        const auto store = c10::make_intrusive<c10d::TCPStore>(meeting_.host, options);
        store->setTimeout(std::chrono::seconds(meeting_.seconds));
        // A store served by torchrun outlives this launch of the job.
        const std::string prefix = meeting_.is_served ? "retort/" + meeting_.job : "retort";
        return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
      } catch (const c10::Error& error) {
        if (serves() || is_over()) throw not_connected(error.what_without_backtrace());
      }
    }
  }

  /// Announces this rank, and waits until all other ranks have announced themselves.
  void take_seat(const Store& store) const {
    check_job(store);
    if (store->add(seat(own_.rank), 1) > 1)
      throw no_meeting(
          "rank " + std::to_string(own_.rank) + " has already joined at " + where() +
              ": two processes have this RANK, or a process from an earlier start is still running",
          "give every process its own RANK, and every start its own MASTER_PORT");
    std::vector<std::string> all;
    for (int rank = 0; rank < own_.size; ++rank) all.push_back(seat(rank));
    for (;;) {
      try {
        return store->wait(all, next_try());
      } catch (const c10::DistNetworkError&) {
        throw;  // rank 0, which serves the store, has exited
      } catch (const c10::Error&) {
        if (is_over()) throw missing(store);
      }
    }
  }

  /// Returns the strings that the ranks pass under this name, in rank order.
  std::vector<std::string> exchange(const Store& store, const std::string& name,
                                    const std::string& own) const {
    store->set(name + std::to_string(own_.rank), own);
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
  bool is_over() const { return Clock::now() >= deadline_; }
  /// Returns how long to wait before checking is_canceled() again.
  std::chrono::milliseconds next_try() const {
    if (is_canceled_()) throw runner::Canceled{};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now());
    return std::clamp<std::chrono::milliseconds>(left, std::chrono::milliseconds(1), kTry);
  }
  static std::string seat(int rank) { return "seat-" + std::to_string(rank); }
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
    return no_meeting("rank " + std::to_string(own_.rank) + " did not find rank 0 at " +
                          address(meeting_) + " within " + std::to_string(meeting_.seconds) +
                          " s: " + first_line,
                      "start all ranks at the same time; MASTER_ADDR must be an address at which "
                      "the other ranks can reach rank 0's machine");
  }

  void check_job(const Store& store) const {
    if (meeting_.job.empty()) return;
    const auto text = [](const std::string& value) {
      return std::vector<std::uint8_t>(value.begin(), value.end());
    };
    const std::vector<std::uint8_t> found = store->compareSet("job", text(""), text(meeting_.job));
    const std::string first(found.begin(), found.end());
    if (first != meeting_.job)
      throw no_meeting("the ranks at " + where() + " belong to another job, '" + first +
                           "', not to '" + meeting_.job + "'",
                       "set MASTER_ADDR to the machine of this job's rank 0, or use another "
                       "MASTER_PORT");
  }

  runner::StageError missing(const Store& store) const {
    std::vector<std::string> absent;
    for (int rank = 0; rank < own_.size; ++rank) {
      if (!store->check({seat(rank)})) absent.push_back(std::to_string(rank));
    }
    return no_meeting((absent.size() == 1 ? "rank " : "ranks ") + runner::listed(absent, 16) +
                          " of " + std::to_string(own_.size) + " did not reach " + where() +
                          " within " + std::to_string(meeting_.seconds) + " s",
                      "start all ranks with the same command; to wait longer, raise "
                      "RETORT_MEETING_SECONDS");
  }

  const runner::RankOfRun& own_;
  const runner::Meeting& meeting_;
  const std::function<bool()>& is_canceled_;
  const Clock::time_point deadline_;
};

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  return getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

/// Returns the address of the interface through which this machine reaches `host`, which need not
/// respond; empty if there is none.
std::string interface_toward(const std::string& host) {
  addrinfo request{};
  request.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), "9", &request, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* one = found; one; one = one->ai_next) {
    const runner::Descriptor socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_storage own{};
    socklen_t size = sizeof own;
    if (*socket < 0 || ::connect(*socket, one->ai_addr, one->ai_addrlen) != 0 ||
        getsockname(*socket, reinterpret_cast<sockaddr*>(&own), &size) != 0)
      continue;
    return numeric(reinterpret_cast<sockaddr*>(&own), size);
  }
  return {};
}

/// Returns the IPv4 address of a network interface of this machine; throws if there is none.
std::string address_of_interface(const std::string& name) {
  ifaddrs* found = nullptr;
  if (getifaddrs(&found) != 0) found = nullptr;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(found, &freeifaddrs);
  for (const ifaddrs* one = found; one; one = one->ifa_next) {
    if (name == one->ifa_name && one->ifa_addr && one->ifa_addr->sa_family == AF_INET)
      return numeric(one->ifa_addr, sizeof(sockaddr_in));
  }
  throw no_meeting(
      "GLOO_SOCKET_IFNAME is '" + name +
          "', but this machine has no network interface of that name with an IPv4 address",
      "choose one that `ip address` lists");
}

bool is_loopback(const std::string& own) {
  return own.empty() || own.starts_with("127.") || own == "::1";
}

constexpr const char* kLoopback = "127.0.0.1";

/// Returns this machine's address, as chosen by the user or implied by rank 0's address.
std::string first_address(const runner::Meeting& meeting) {
  if (!meeting.file.empty()) return kLoopback;
  if (const char* const name = std::getenv("GLOO_SOCKET_IFNAME"); name && *name)
    return address_of_interface(name);
  return interface_toward(meeting.host);
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
