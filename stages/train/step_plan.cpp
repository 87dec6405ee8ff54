#include "stages/train/step_plan.h"

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

Coupling most_coupled(const std::vector<LossTerm>& terms) {
  Coupling most = Coupling::kPerSample;
  for (const LossTerm& term : terms) most = std::max(most, term.coupling);
  return most;
}

}  // namespace

std::int64_t least_units(const TrainingStep& step) {
  return runner::least_samples(most_coupled(step.terms()), step.mixes_samples());
}

void refuse_in_backward(const MemoryPolicy& policy, const std::string& why, const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict,
                           "optimizer_in_backward steps each weight as soon as its own gradient is there, but " + why)
      .at("/optimizer_in_backward")
      .in_stage(policy.pointer)
      .with_help(help);
}

StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units, Numerics numerics,
                        ActivationCheckpointing activation_checkpointing, bool declares_cut) {
  StepPlan plan{.numerics = std::move(numerics),
                .activation_checkpointing = std::move(activation_checkpointing),
                .offloads_optimizer = policy.offloads_optimizer,
                .optimizer_in_backward = policy.optimizer_in_backward};
  if (plan.optimizer_in_backward && plan.numerics.precision.uses(Precision::kFp16)) {
    refuse_in_backward(policy, "fp16 skips a step whose gradients overflow, which is known when all are there",
                       "set precision: bf16, or optimizer_in_backward: false");
  }
  constexpr const char* kMixing = "the network's layers mix the samples of a batch (BatchNorm)";
  if (policy.two_pass && step.mixes_samples()) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             std::string("two_pass would encode a batch in parts, but ") + kMixing)
        .at("/two_pass")
        .in_stage(policy.pointer)
        .with_help("set two_pass: off; activation_checkpointing: block saves memory and keeps every bit");
  }
  if (std::min(policy.micro_batch.value_or(units), units) < least_units(step)) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             std::string("a batch, or a part of one, would be a single sample, but ") + kMixing +
                                 ", and there would be no other to normalise it by")
        .at("/batch_size")
        .with_help("set batch_size: 2 or more");
  }
  if (!policy.micro_batch || *policy.micro_batch >= units) return plan;
  const auto refuse = [&](const std::string& why, const std::string& help) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict, "micro_batch " + std::to_string(*policy.micro_batch) +
                                                                     " would split a batch of " +
                                                                     std::to_string(units) + ", but " + why)
        .at("/batch_size")
        .with_help(help);
  };
  const std::vector<LossTerm> terms = step.terms();
  if (!declares_cut && runner::are_cut_layers(most_coupled(terms), step.mixes_samples())) {
    refuse(kMixing,
           "set micro_batch: auto, or a batch_size that fits as a whole; activation_checkpointing: block saves "
           "memory and keeps every bit");
  }
  for (const LossTerm& term : terms) {
    if (term.samples_in_group > 0 && *policy.micro_batch % term.samples_in_group != 0 && !policy.two_pass) {
      refuse("the loss '" + term.name + "' is over groups of " + std::to_string(term.samples_in_group) + " samples",
             "set a multiple of that, two_pass: on, or micro_batch: auto");
    }
    if (!runner::is_cut_loss(term.coupling, policy.two_pass)) continue;
    refuse("the loss '" + term.name + "' depends on the whole batch at once",
           "set two_pass: on, which keeps the gradient, or micro_batch: auto");
  }
  if (plan.optimizer_in_backward) {
    refuse_in_backward(policy,
                       "micro_batch " + std::to_string(*policy.micro_batch) + " splits a batch of " +
                           std::to_string(units) + ", and the gradients of its parts add up first",
                       "set optimizer_in_backward: false, or micro_batch: auto");
  }
  plan.micro_batch = *policy.micro_batch;
  plan.two_pass = policy.two_pass;
  return plan;
}

nlohmann::ordered_json to_json(const StepPlan& plan) {
  nlohmann::ordered_json json = {{"micro_batch", plan.micro_batch},
                                 {"two_pass", plan.two_pass},
                                 {"activation_checkpointing", to_json(plan.activation_checkpointing)}};
  if (plan.offloads_optimizer) json["offload"] = "optimizer";
  if (plan.optimizer_in_backward) json["optimizer_in_backward"] = true;
  json.update(to_json(plan.numerics));
  return json;
}

std::int64_t parts(const StepPlan& plan, std::int64_t units) {
  return plan.micro_batch == 0 || plan.two_pass ? 1 : (units + plan.micro_batch - 1) / plan.micro_batch;
}

}  // namespace stages
