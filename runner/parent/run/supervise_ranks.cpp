#include "runner/parent/run/supervise_ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/parent/run/run.h"
#include "runner/parent/run/worker_output.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

/// How long the ranks have to exit after one of them has failed. Ranks notice a failure at once,
/// unless they are still waiting for the others to join.
constexpr auto kNotice = std::chrono::seconds(10);

class RanksOfRun {
 public:
  RanksOfRun(const WorkerCommand& command, const Json& request, Conversation first,
             const OtherRanks& others)
      : command_(command), request_(request), first_(std::move(first)), others_(others) {}

  Result<Ending> run() {
    Diagnostics errors = start_first();
    for (int rank = 1; rank < others_.count && errors.empty(); ++rank) errors = start(rank);
    if (!errors.empty()) return errors;
    supervision_.run();
    return ending();
  }

 private:
  struct Rank {
    explicit Rank(std::function<void(const std::string&)> on_line) : output(std::move(on_line)) {}
    WorkerOutput output;
    WorkerProcess* ready = nullptr;  // set while it waits for the go message
    Diagnostics errors;              // errors reported by the rank
    std::optional<Ending> ending;
    bool was_killed = false;  // true if this process killed the rank
  };

  Json request_of(int rank) const {
    Json request = request_;
    if (others_.count > 1) request["rank"] = rank;
    if (rank > 0) request.erase("index");  // only rank 0 looks up earlier results
    return request;
  }

  Diagnostics start_first() {
    Conversation conversation = first_;
    conversation.on_event = [this](const Event& event, WorkerProcess& process) {
      const auto* reported = std::get_if<Reported>(&event);
      if (reported && reported->diagnostic.code == ErrorCode::kRankLost) {
        lost_.push_back(reported->diagnostic);
        return;
      }
      first_.on_event(event, process);
      if (std::holds_alternative<Ready>(event)) send_to_work();
    };
    conversation.tick = [this] {
      return sooner(first_.tick ? first_.tick() : std::nullopt, tick());
    };
    return supervision_.start(command_, request_of(0), std::move(conversation),
                              [this](const Ending& end) {
                                first_end_ = end;
                                was_first_killed_ = has_killed_;
                                if (lost_.empty()) kill_all();
                                else wait_for_others();  // how they exit will explain the error
                              });
  }

  Diagnostics start(int rank) {
    Rank& own = *ranks_.emplace_back(std::make_unique<Rank>(
        [this, rank](const std::string& line) { others_.on_line(rank, line); }));
    Conversation conversation;
    conversation.obeys_signals = false;
    conversation.tick = [this] { return tick(); };
    conversation.on_output = [&own](std::string_view text) { own.output.take(text); };
    conversation.on_event = [this, &own, rank](const Event& event, WorkerProcess& process) {
      if (const auto* reported = std::get_if<Reported>(&event)) {
        if (reported->diagnostic.severity != Severity::kError) return;
        const bool is_lost = reported->diagnostic.code == ErrorCode::kRankLost;
        (is_lost ? lost_by_others_ : own.errors).push_back(reported->diagnostic);
      } else if (const auto* said = std::get_if<Said>(&event)) {
        others_.on_line(rank, said->line);
      } else if (std::holds_alternative<Flush>(event)) {
        process.send(Json{{"flushed", true}}.dump());
      } else if (std::holds_alternative<Ready>(event)) {
        own.ready = &process;
        if (is_at_work_) send_to_work();
      }
    };
    WorkerCommand command = command_;
    command.variables.push_back("RETORT_RANK=" + std::to_string(rank));
    if (others_.hand_over) others_.hand_over(rank, command);
    return supervision_.start(command, request_of(rank), std::move(conversation),
                              [this, &own](const Ending& end) {
                                own.output.take_rest();
                                own.ready = nullptr;
                                own.ending = end;
                                own.was_killed = has_killed_;
                                if (has_failed(own)) wait_for_others();
                              });
  }

  void send_to_work() {
    is_at_work_ = true;
    for (const auto& rank : ranks_) {
      if (WorkerProcess* const process = std::exchange(rank->ready, nullptr))
        process->send(others_.go().dump());
    }
  }

  void wait_for_others() {
    if (!deadline_) deadline_ = Clock::now() + kNotice;
  }

  void kill_all() {
    has_killed_ = true;
    deadline_.reset();
    supervision_.kill_others();
  }

  /// Kills the ranks at the deadline. Returns the maximum time until the next call.
  std::optional<Milliseconds> tick() {
    if (!deadline_) return {};
    const auto left = std::chrono::ceil<Milliseconds>(*deadline_ - Clock::now());
    if (left.count() > 0) return left;
    kill_all();
    return {};
  }

  static bool has_failed(const Rank& rank) {
    return rank.ending && !rank.was_killed && rank.ending->exit != ExitCode::kDone;
  }

  /// Returns how the run ended: the ending of the first rank that failed.
  Ending ending() const {
    if (lost_.empty() && !was_first_killed_) return *first_end_;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      const Rank& rank = *ranks_[i];
      if (!has_failed(rank)) continue;
      Ending end = *rank.ending;
      end.errors.insert(end.errors.begin(), rank.errors.begin(), rank.errors.end());
      if (end.errors.empty()) continue;
      for (Diagnostic& error : end.errors)
        error.message = "rank " + std::to_string(i + 1) + ": " + error.message;
      return end;
    }
    // Rank 0 was killed because it did not exit; the other ranks report why they gave up on it.
    if (was_first_killed_ && !lost_by_others_.empty())
      return {.exit = exit_code(lost_by_others_), .errors = {lost_by_others_.front()}};
    Ending end = *first_end_;
    end.errors.insert(end.errors.begin(), lost_.begin(), lost_.end());
    return end;
  }

  const WorkerCommand& command_;
  const Json& request_;
  const Conversation first_;
  const OtherRanks& others_;
  Supervision supervision_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // ranks 1 and higher
  bool is_at_work_ = false;
  std::optional<Ending> first_end_;
  // The errors that rank 0 and the others report about losing another rank.
  Diagnostics lost_, lost_by_others_;
  std::optional<Clock::time_point> deadline_;  // when all ranks must have exited
  bool has_killed_ = false;                    // the remaining ranks were killed
  bool was_first_killed_ = false;              // rank 0 was among the killed ranks
};

}  // namespace

Result<Ending> supervise_ranks(const WorkerCommand& command, const Json& request,
                               Conversation first, const OtherRanks& others) {
  return RanksOfRun(command, request, std::move(first), others).run();
}

}  // namespace runner
