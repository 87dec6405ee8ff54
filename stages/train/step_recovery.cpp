#include "stages/train/step_recovery.h"

#include <algorithm>

#include <c10/util/Exception.h>
#include <nlohmann/json.hpp>

#include "runner/shared/disk/fault.h"
#include "runner/shared/stage/run_context.h"
#include "runner/shared/stage/stage.h"
#include "stages/machine/counting_allocator.h"
#include "stages/machine/memory_meter.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/recovery.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/step_execution.h"

namespace stages {

void fail_if_requested() {
  constexpr int kLaunchFailure = 719;  // of cudaError_t
  const auto action = runner::reach(runner::Milestone::kStep);
  if (!action) return;
  if (*action == runner::Fault::Action::kLose)
    throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kLaunchFailure,
                                "a test requested that this step lose its GPU");
  throw std::runtime_error("a test requested that this step fail");
}
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostPlans = 64;             // number of plans tried in turn
constexpr std::int64_t kMostFailures = 2;  // failures of one plan before giving up on it
constexpr double kRoom = 1.05;             // a plan is used again if this multiple of its
                                           // needed bytes is free

/// Returns the members of a policy that recovery may change.
Json choices(const MemoryPolicy& policy) {
  return {{"micro_batch", policy.micro_batch ? Json(*policy.micro_batch) : Json(nullptr)},
          {"two_pass", policy.two_pass},
          {"activation_checkpointing", to_json(policy.activation_checkpointing)},
          {"optimizer_in_backward", policy.optimizer_in_backward}};
}

void take_choices(MemoryPolicy& policy, const nlohmann::json& json) {
  policy.micro_batch.reset();
  if (!json.at("micro_batch").is_null())
    policy.micro_batch = json.at("micro_batch").get<std::int64_t>();
  policy.two_pass = json.at("two_pass");
  const nlohmann::json& recomputed = json.at("activation_checkpointing");
  policy.activation_checkpointing.blocks = recomputed == "block";
  policy.activation_checkpointing.modules.clear();
  policy.optimizer_in_backward = json.value("optimizer_in_backward", false);
  if (recomputed.is_array()) recomputed.get_to(policy.activation_checkpointing.modules);
}

}  // namespace

StepRecovery::StepRecovery(MemoryPolicy policy, StepExecution& execution, Options options,
                           runner::RunContext& context)
    : policy_(std::move(policy)),
      execution_(execution),
      options_(std::move(options)),
      context_(context),
      first_policy_(policy_),
      first_(execution.plan()) {}

bool StepRecovery::retries(std::int64_t step) {
  if (!policy_.recovery.allows_retry(retries_)) return false;
  runner::Recovery incident = memory_incident(execution_.network().device());
  incident.step = step;
  empty_cache(execution_.network().device());  // to measure free memory correctly
  const StepPlan from = execution_.plan();
  std::string how = "repeated unchanged";
  if (retries_ > 0) {
    const std::int64_t now = options_.free_now();
    if (from == first_ && failures(from) == 0) {
      const bool is_own_budget = incident.limit > 0;
      was_taken_by_others_ = !is_own_budget && options_.planned && now < *options_.planned;
    }
    auto other = next(now);
    if (!other) return false;
    ++failures(from);
    take(std::move(other->first), std::move(other->second));
    how = "repeated with " + way(execution_.plan()) + " instead of " + way(from);
  }
  ++retries_;
  const auto& most = policy_.recovery.max_retries;
  how += ", retry " + std::to_string(retries_) + (most ? " of " + std::to_string(*most) : "");
  report(incident, from, "step " + std::to_string(step) + ": " + in_words(incident) + ": " + how);
  clear_after_out_of_memory(execution_.network().device());
  return true;
}

void StepRecovery::end_step(std::int64_t step) {
  const StepPlan& now = execution_.plan();
  if (now == first_ || !was_taken_by_others_ || failures(first_) >= kMostFailures) return;
  if (++good_steps_ < options_.good_steps) return;
  good_steps_ = 0;
  const std::int64_t left = options_.free_now();
  if (static_cast<double>(left) < kRoom * static_cast<double>(*options_.planned)) return;
  const StepPlan from = now;
  take(first_policy_, first_);
  report({.cause = "memory is free again", .step = step}, from,
         "step " + std::to_string(step) + ": memory is free again: " + way(first_) +
             " instead of " + way(from) + ", starting with the next step");
}

void StepRecovery::go_on_after_kills(std::int64_t plans) {
  if (plans == 0) return;
  const StepPlan from = execution_.plan();
  for (std::int64_t done = 0; done < plans; ++done) {
    ++failures(execution_.plan());
    auto other = next(options_.free_now());
    if (!other) {
      throw runner::StageError(
          runner::ErrorCode::kOutOfMemory,
          "the worker was killed repeatedly, and no plan needs less memory than " +
              way(execution_.plan()))
          .with_help(
              "the operating system often does this when memory runs out: use a smaller batch or "
              "model, or more memory");
    }
    take(std::move(other->first), std::move(other->second));
  }
  report({.cause = "killed"}, from,
         "continues with " + way(execution_.plan()) + " instead of " + way(from) +
             ": workers that used " + way(from) + " were killed");
}

std::optional<std::pair<MemoryPolicy, StepPlan>> StepRecovery::next(std::int64_t bytes) const {
  MemoryPolicy from = policy_;
  for (int asked = 0; asked < kMostPlans; ++asked) {
    std::optional<MemoryPolicy> policy = options_.replan(from, bytes);
    if (!policy) return {};
    StepPlan plan = options_.plan_under(*policy);
    const bool has_failed = std::ranges::any_of(
        failures_, [&](const auto& entry) { return entry.first == plan && entry.second > 0; });
    if (!has_failed && plan != execution_.plan())
      return std::pair(*std::move(policy), std::move(plan));
    from = *std::move(policy);
  }
  return {};
}

void StepRecovery::take(MemoryPolicy policy, StepPlan plan) {
  policy_ = std::move(policy);
  execution_.replace_plan(std::move(plan));
  good_steps_ = 0;
}

std::int64_t& StepRecovery::failures(const StepPlan& plan) {
  const auto found = std::ranges::find(failures_, plan, &std::pair<StepPlan, std::int64_t>::first);
  return found != failures_.end() ? found->second : failures_.emplace_back(plan, 0).second;
}

void StepRecovery::report(runner::Recovery incident, const StepPlan& from,
                          const std::string& line) {
  incident.from = way(from);
  incident.to = way(execution_.plan());
  context_.say(line);
  context_.recovered(incident);
}

/// Returns a string such as "micro_batch 4, two passes, blocks recomputed".
std::string StepRecovery::way(const StepPlan& plan) const {
  std::string text = plan.micro_batch > 0 ? "micro_batch " + std::to_string(plan.micro_batch)
                                          : "the whole batch of " + std::to_string(options_.units);
  if (plan.two_pass) text += ", two passes";
  if (plan.activation_checkpointing.blocks) text += ", blocks recomputed";
  else if (const std::size_t modules = plan.activation_checkpointing.modules.size())
    text +=
        ", " + std::to_string(modules) + (modules == 1 ? " module" : " modules") + " recomputed";
  if (plan.optimizer_in_backward) text += ", the optimizer in the backward pass";
  return text;
}

Json StepRecovery::state() const {
  Json json = to_json(execution_.plan());
  if (execution_.plan() == first_) return json;
  json["in_place_of"] = to_json(first_);
  json["policy"] = choices(policy_);
  return json;
}

void StepRecovery::restore(const nlohmann::json& state) {
  if (!state.is_object() || !state.contains("in_place_of")) return;
  if (context_.node().restarts.has_moved)
    return;  // memory ran out on a different device, not on this
             // one
  if (state.at("in_place_of") != nlohmann::json(to_json(first_))) return;
  MemoryPolicy policy = first_policy_;
  take_choices(policy, state.at("policy"));
  StepPlan plan = options_.plan_under(policy);
  failures(first_) = kMostFailures;
  take(std::move(policy), std::move(plan));
  context_.say("continues with " + way(execution_.plan()) + " instead of " + way(first_) +
               ", as chosen when memory ran out");
}

StepRecovery::Options recovery_options(const TrainingStep& step, const torch::nn::Module& network,
                                       std::int64_t samples, const TrainerOptions& options,
                                       const StepExecution& execution, const Replan& replan,
                                       const runner::RunContext& context) {
  const c10::Device device(context.node().device);
  const std::int64_t units = std::min(options.batch_size, samples);
  const auto plan = [&, samples](const MemoryPolicy& policy) {
    StepPlan other = plan_under(policy, step, network, samples, options, execution.plan().numerics,
                                context.node().ranks.size);
    other.offloads_optimizer = execution.plan().offloads_optimizer;
    other.sharding = execution.plan().sharding;
    other.graph_batch = execution.plan().graph_batch;
    return other;
  };
  const auto accepts = [plan](const MemoryPolicy& policy) {
    try {
      plan(policy);
      return true;
    } catch (const runner::StageError&) {
      return false;
    }
  };
  const auto next = [units, accepts, replan](const MemoryPolicy& failed, std::int64_t bytes) {
    auto found = replan ? replan(failed, bytes) : std::nullopt;
    return found ? found : next_plan(failed, units, accepts);
  };
  return {.replan = next,
          .plan_under = plan,
          .units = units,
          .planned = options.planned_needed,
          .free_now = [device, &context] {
            const std::int64_t own = memory_left(device);
            RankGroup* const group = group_of(context.node().ranks);
            return group ? group->least(own) : own;
          }};
}

std::int64_t memory_left(c10::Device device) {
  if (!device.is_cpu()) return device_memory(device).bytes;
  const MemoryMeter meter(device);
  return std::min(meter.available(),
                  kilobytes_field("/proc/meminfo", "MemAvailable") / host_memory_ranks() +
                      meter.use().reserved);
}

}  // namespace stages
