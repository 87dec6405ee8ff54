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

/// An external sampler, such as Optuna, that chooses the trials. The two sides exchange lines of
/// JSON.
///
/// To the sampler:
///   {"ask": 0}            a trial could start
///   {"refused": 0, "errors": ["unknown key 'train.epoch'"]}    the next ask follows
///   {"tell": 0, "trial": 0, "state": "finished", "value": 0.5, "metric": "validation/loss",
///    "best": "smallest", "metrics": {"validation/loss": 0.5, "evaluate/top1": 0.8}}
///   {"error": "…"}        a line from the sampler is invalid
/// From the sampler:
///   {"ask": 0, "settings": {"train.epochs": 5}}
///   {"stop": true}        no more trials; the end of its output means the same
///
/// "value" is the value of the metric by which trials are compared, null if it was not measured;
/// "best" is "smallest" or "largest". There are as many open asks as free slots. Answers may arrive
/// in any order; an answer that arrives before its ask is kept until the ask is made.
///
/// When an interrupted sweep continues, it tells the sampler about every trial again: about
/// finished ones immediately, about the others when they end. A sampler should skip those it
/// already knows. Such a line also has {"overrides": ["train.epochs=5"]}, for a sampler that has
/// lost its state. An ask that did not lead to a trial, because it was unanswered or refused, is
/// repeated under the same number and must be answered again; then the numbering continues.
class AskTell final : public TrialSource {
 public:
  using Json = nlohmann::ordered_json;
  /// Adds a trial with `settings` to the journal and returns its number.
  using Add = std::function<Result<std::uint64_t>(std::uint64_t ask, const Json& settings)>;
  /// Returns {"value", "metrics"} for a trial that has ended.
  using Measured = std::function<Json(const Trial& trial)>;

  /// Reads from the descriptor `input`; `input` and `output` are borrowed.
  AskTell(int input, std::ostream& output, Add add, Measured measured)
      : input_(input), output_(output), add_(std::move(add)), measured_(std::move(measured)) {}

  /// Must be called first when a sweep is continued. `trials` are the trials so far. Reports each
  /// one for which `is_over` is true to the sampler.
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
  std::set<std::uint64_t> asked_;            // asks that have not been answered
  std::set<std::uint64_t> answered_before_;  // asks that an earlier process has answered
  std::map<std::uint64_t, std::uint64_t> ask_of_trial_;  // by trial number
  std::set<std::uint64_t> trials_of_before_;
  bool is_done_ = false;
};

}  // namespace runner
