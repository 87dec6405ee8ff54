#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>

#include <nlohmann/json.hpp>

#include "runner/parent/sweep/run_trials.h"
#include "runner/shared/error/diagnostic.h"

namespace runner {

/// A sampler outside that thinks of the trials, as Optuna does; a line of JSON each way:
///
///   to it                                                           from it
///   {"ask": 0}            a trial could start                       {"ask": 0, "settings":
///   {"train.epochs": 5}}
///                                                                   {"stop": true}, or its end: no
///                                                                   more trials
///   {"refused": 0, "errors": ["unknown key 'train.epoch'"]}         the next ask follows
///   {"tell": 0, "trial": 0, "state": "finished", "value": 0.5, "metric": "validation/loss",
///   "best": "smallest",
///    "metrics": {"validation/loss": 0.5, "evaluate/top1": 0.8}}
///   {"error": "…"}        a line of it makes no sense
///
/// "value" is that of the metric by which trials are compared, null where it was not measured;
/// "best" says whether the smallest or the largest is best. As many are asked for at a time as
/// slots are free; answers may come in any order, and lines that come before they are asked for
/// wait.
///
/// Where a sweep that was cut off goes on, every trial is told, those that are over at once and the
/// others when they are; a sampler passes over what it has heard before. Such a line has
/// {"overrides": ["train.epochs=5"]} for one that knows nothing any more. An ask of which no trial
/// has come, since it was not answered or refused, comes again with its number, and is to be
/// answered again; then they are counted on.
class AskTell final : public TrialSource {
 public:
  using Json = nlohmann::ordered_json;
  /// Adds a trial with those settings to the journal, and gives its number.
  using Add = std::function<Result<std::uint64_t>(std::uint64_t ask, const Json& settings)>;
  /// {"value", "metrics"} of a trial that has ended.
  using Measured = std::function<Json(const Trial& trial)>;

  /// Reads from the descriptor `input`, which is borrowed, as `output` is.
  AskTell(int input, std::ostream& output, Add add, Measured measured)
      : input_(input), output_(output), add_(std::move(add)), measured_(std::move(measured)) {}

  /// To be called first, where the sweep goes on: these trials have been asked for. Those that
  /// `is_over` are told.
  void go_on(const std::vector<Trial>& trials, const std::function<bool(const Trial&)>& is_over);

  std::vector<std::uint64_t> take(std::size_t wanted) override;
  bool is_done() const override { return is_done_; }
  void ended(const Trial& trial) override;
  void say(const Json& line);

 private:
  void read_input();
  void hear(const std::string& line, std::vector<std::uint64_t>& added);

  const int input_;
  std::ostream& output_;
  const Add add_;
  const Measured measured_;
  std::string unread_;
  std::uint64_t next_ask_ = 0;
  std::set<std::uint64_t> asked_;                        // without an answer
  std::set<std::uint64_t> answered_before_;              // in an earlier process
  std::map<std::uint64_t, std::uint64_t> ask_of_trial_;  // by number
  std::set<std::uint64_t> trials_of_before_;
  bool is_done_ = false;
};

}  // namespace runner
