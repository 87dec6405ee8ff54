#include "stages/train/step_plan.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/stage.h"
#include "runner/shared/text/join.h"
#include "stages/ranks/rank_group.h"

namespace stages {
namespace {

Coupling most_coupled(const std::vector<LossTerm>& terms) {
  Coupling most = Coupling::kPerSample;
  for (const LossTerm& term : terms) most = std::max(most, term.coupling);
  return most;
}

}  // namespace

std::int64_t units_in_group(const TrainingStep& step) {
  std::int64_t units = 1;
  for (const LossTerm& term : step.terms()) {
    if (term.samples_in_group > 0) units = std::lcm(units, term.samples_in_group);
  }
  return units;
}

bool couples_batch(const TrainingStep& step) {
  return most_coupled(step.terms()) == Coupling::kWholeBatch;
}

bool is_over_groups(const TrainingStep& step) {
  return most_coupled(step.terms()) == Coupling::kPerGroup;
}

bool mixes_batch(const TrainingStep& step) {
  return runner::are_cut_layers(most_coupled(step.terms()), step.mixes_samples());
}

std::int64_t least_units(const TrainingStep& step) {
  return runner::least_samples(most_coupled(step.terms()), step.mixes_samples());
}

void refuse_in_backward(const MemoryPolicy& policy, const std::string& why,
                        const std::string& help) {
  throw runner::StageError(
      runner::ErrorCode::kOptionConflict,
      "optimizer_in_backward updates each weight as soon as its own gradient is ready, but " + why)
      .at("/optimizer_in_backward")
      .in_stage(policy.pointer)
      .with_help(help);
}

void refuse_sharded_parameters(const MemoryPolicy& policy, const std::string& why,
                               const std::string& help) {
  throw runner::StageError(runner::ErrorCode::kOptionConflict, "shard: parameters " + why)
      .at("/shard")
      .in_stage(policy.pointer)
      .with_help(help);
}

namespace {

/// Throws if a batch cannot be divided among ranks.
void refuse_ranks(const TrainingStep& step, const MemoryPolicy& policy, bool declares_cut,
                  int ranks) {
  const auto refuse = [&](const std::string& why, const std::string& help) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "device.count: " + std::to_string(ranks) +
                                 " divides every batch among that many processes, but " + why)
        .in_stage("/device")
        .at("/count")
        .with_help(help);
  };
  if (mixes_batch(step) && !step.mixes_over_ranks())
    refuse(step.why_mixed(), "set device.count: 1, or use a network without such layers");
  if (mixes_batch(step) && declares_cut && policy.micro_batch) {
    refuse("gradient_accumulation_steps normalizes each part of a batch separately, and " +
               step.why_mixed(),
           "set gradient_accumulation_steps: 1 and batch_size to the size of the whole batch, or "
           "set device.count: 1");
  }
  if (policy.optimizer_in_backward)
    refuse("memory.optimizer_in_backward updates weights before the gradients are summed",
           "set memory.optimizer_in_backward: false, or device.count: 1");
}

}  // namespace

StepPlan make_step_plan(const TrainingStep& step, const MemoryPolicy& policy, std::int64_t units,
                        Numerics numerics, ActivationCheckpointing activation_checkpointing,
                        bool declares_cut, int ranks) {
  StepPlan plan{.numerics = std::move(numerics),
                .activation_checkpointing = std::move(activation_checkpointing),
                .offloads_optimizer = policy.offloads_optimizer,
                .sharding = ranks > 1 ? policy.sharding : Sharding::kNone,
                .optimizer_in_backward = policy.optimizer_in_backward};
  if (plan.optimizer_in_backward && plan.numerics.precision.uses(Precision::kFp16)) {
    refuse_in_backward(policy,
                       "fp16 skips a step if its gradients overflow, which is known only once all "
                       "gradients are ready",
                       "set precision: bf16, or optimizer_in_backward: false");
  }
  if (ranks > 1) refuse_ranks(step, policy, declares_cut, ranks);
  if (plan.shards_parameters() && !plan.activation_checkpointing.blocks) {
    refuse_sharded_parameters(policy,
                              "frees the weights of a block after its forward pass, so the "
                              "backward pass must compute the block again",
                              "set activation_checkpointing: block, or shard: gradients");
  }
  if (policy.two_pass && step.mixes_samples()) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "two_pass would encode a batch in parts, but " + step.why_mixed())
        .at("/two_pass")
        .in_stage(policy.pointer)
        .with_help(
            "set two_pass: off; activation_checkpointing: block saves memory and gives the same "
            "result bit for bit");
  }
  const std::int64_t batch = units;
  units = share_of(batch, units_in_group(step), /*rank=*/0, ranks).units();
  // Layers that mix samples across the ranks see the whole batch, no matter how small a share is.
  const std::int64_t seen = ranks > 1 && mixes_batch(step) ? batch : units;
  if (std::min(policy.micro_batch.value_or(seen), seen) < least_units(step)) {
    throw runner::StageError(
        runner::ErrorCode::kOptionConflict,
        "a batch, or a part of one, would be a single sample, but " + step.why_mixed())
        .at("/batch_size")
        .with_help("set batch_size: 2 or more");
  }
  if (!policy.micro_batch || *policy.micro_batch >= units) return plan;
  const auto refuse = [&](const std::string& why, const std::string& help) {
    throw runner::StageError(runner::ErrorCode::kOptionConflict,
                             "micro_batch " + std::to_string(*policy.micro_batch) +
                                 " would split a batch of " + std::to_string(units) + ", but " +
                                 why)
        .at("/batch_size")
        .with_help(help);
  };
  const std::vector<LossTerm> terms = step.terms();
  if (!declares_cut && mixes_batch(step)) {
    refuse(step.why_mixed(),
           "set micro_batch: auto, or a batch_size that fits as a whole; activation_checkpointing: "
           "block saves memory and gives the same result bit for bit");
  }
  for (const LossTerm& term : terms) {
    if (term.samples_in_group > 0 && *policy.micro_batch % term.samples_in_group != 0 &&
        !policy.two_pass) {
      refuse("the loss '" + term.name + "' is computed over groups of " +
                 std::to_string(term.samples_in_group) + " samples",
             "set micro_batch to a multiple of that or to auto, or set two_pass: on");
    }
    if (ranks > 1 || !runner::is_cut_loss(term.coupling, policy.two_pass)) continue;
    refuse("the loss '" + term.name + "' depends on the whole batch at once",
           "set two_pass: on, which does not change the gradient, or micro_batch: auto");
  }
  if (plan.optimizer_in_backward) {
    refuse_in_backward(policy,
                       "micro_batch " + std::to_string(*policy.micro_batch) +
                           " splits a batch of " + std::to_string(units) +
                           ", and the gradients of its parts must be added up first",
                       "set optimizer_in_backward: false, or micro_batch: auto");
  }
  plan.micro_batch = *policy.micro_batch;
  plan.two_pass = policy.two_pass;
  return plan;
}

nlohmann::ordered_json to_json(const StepPlan& plan) {
  nlohmann::ordered_json json = {
      {"micro_batch", plan.micro_batch},
      {"two_pass", plan.two_pass},
      {"activation_checkpointing", to_json(plan.activation_checkpointing)}};
  if (plan.offloads_optimizer) json["offload"] = "optimizer";
  if (plan.sharding != Sharding::kNone) json["shard"] = name(plan.sharding);
  if (plan.optimizer_in_backward) json["optimizer_in_backward"] = true;
  if (plan.graph_batch > 0) json["cuda_graphs"] = true;
  json.update(to_json(plan.numerics));
  return json;
}

std::int64_t parts(const StepPlan& plan, std::int64_t units) {
  return plan.micro_batch == 0 || plan.two_pass ? 1
                                                : (units + plan.micro_batch - 1) / plan.micro_batch;
}

StepPlan plan_of_numbers(StepPlan plan, int ranks) {
  if (ranks > 1) plan.micro_batch = 0;
  return plan;
}

StepNumbers::StepNumbers(double weight, std::int64_t scored)
    : weight_(weight), scored_(static_cast<double>(scored)) {}
StepNumbers::~StepNumbers() = default;
StepNumbers::StepNumbers(StepNumbers&&) noexcept = default;
StepNumbers& StepNumbers::operator=(StepNumbers&&) noexcept = default;

at::Tensor StepNumbers::row(const NamedTensors& terms, const NamedTensors& scores) {
  std::vector<at::Tensor> row;
  names_.terms.clear();
  names_.scores.clear();
  for (const auto& [name, value] : terms) {
    names_.terms.push_back(name);
    row.push_back(value.detach().to(torch::kDouble));
  }
  for (const auto& [name, value] : scores) {
    names_.scores.push_back(name);
    row.push_back(value.detach().to(torch::kDouble));
  }
  return torch::stack(row);
}

void StepNumbers::add(at::Tensor row) { rows_.push_back(std::move(row)); }

at::Tensor StepNumbers::join() {
  rows_ = {torch::stack(rows_).sum(0)};
  return rows_.front();
}

void StepNumbers::set_gradient_norm(const at::Tensor& norm) {
  norm_ = norm.detach().to(torch::kDouble).reshape({1});
}

void StepNumbers::set_scaling(const at::Tensor& scale, const at::Tensor& overflow) {
  scaling_ = torch::stack({scale, overflow}).to(torch::kDouble);
}

at::Tensor StepNumbers::failed(std::size_t terms) const {
  std::vector<at::Tensor> all;
  for (const at::Tensor& row : rows_)
    all.push_back(row.narrow(0, 0, static_cast<std::int64_t>(terms)));
  if (norm_.defined())
    all.push_back(scaling_.defined() ? torch::where(scaling_[1] == 0, norm_, 0) : norm_);
  // Of all numbers, only those that are not finite differ from 0 if they are multiplied by it.
  return torch::cat(all).mul(0).ne(0).any();
}

void StepNumbers::fetch() {
  std::vector<at::Tensor> all = std::exchange(rows_, {});
  parts_ = all.size();
  has_norm_ = norm_.defined();
  has_scaling_ = scaling_.defined();
  if (has_norm_) all.push_back(std::exchange(norm_, {}));
  if (has_scaling_) all.push_back(std::exchange(scaling_, {}));
  const at::Tensor values = all.size() == 1 ? all.front() : torch::cat(all);
  if (values.is_cpu() || values.is_meta()) {
    host_values_ = values;
    return;
  }
  host_values_ =
      torch::empty(values.sizes(), torch::TensorOptions(torch::kDouble).pinned_memory(true));
  host_values_.copy_(values, /*non_blocking=*/true);
  const c10::impl::VirtualGuardImpl guard(values.device().type());
  copied_ = std::make_unique<c10::Event>(values.device().type());
  copied_->record(guard.getStream(values.device()));
}

void StepNumbers::wait() const {
  if (copied_) copied_->synchronize();
}

void StepNumbers::add_sums(std::vector<double>& sums) const {
  wait();
  const double* value = host_values_.const_data_ptr<double>();
  for (std::size_t part = 0; part < parts_; ++part) {
    for (double& sum : sums) sum += *value++;
  }
}

Means StepNumbers::means(std::span<const StepNumbers> batches) {
  const StepNumbers& first = batches.front();
  std::vector<double> sums(first.names_.terms.size() + first.names_.scores.size(), 0.0);
  Means means;
  for (const StepNumbers& batch : batches) {
    assert(batch.names_.terms == first.names_.terms && batch.names_.scores == first.names_.scores);
    batch.add_sums(sums);
    means.weight += batch.weight_;
    means.units += batch.scored_;
  }
  auto sum = sums.begin();
  for (const std::string& name : first.names_.terms)
    means.terms.emplace_back(name, *sum++ / means.weight);
  for (const std::string& name : first.names_.scores)
    means.scores.emplace_back(name, *sum++ / means.units);
  for (const auto& [name, mean] : means.terms) means.loss += mean;
  return means;
}

double StepNumbers::value(std::int64_t index) const {
  wait();
  return host_values_.const_data_ptr<double>()[index < 0 ? host_values_.numel() + index : index];
}

std::optional<double> StepNumbers::gradient_norm() const {
  if (!has_norm_ || skipped()) return {};
  return value(has_scaling_ ? -3 : -1);
}

std::optional<double> StepNumbers::loss_scale() const {
  return has_scaling_ ? std::optional(value(-2)) : std::nullopt;
}

bool StepNumbers::skipped() const { return has_scaling_ && value(-1) > 0; }

std::optional<std::int64_t> StepNumbers::first_broken_part() const {
  wait();
  const double* row = host_values_.const_data_ptr<double>();
  const std::size_t width = names_.terms.size() + names_.scores.size();
  for (std::size_t part = 0; part < parts_; ++part, row += width) {
    for (std::size_t term = 0; term < names_.terms.size(); ++term) {
      if (!std::isfinite(row[term])) return static_cast<std::int64_t>(part);
    }
  }
  return {};
}

namespace {

/// Returns a string such as "'a.jpg', 'b.jpg', 'c.jpg' and 5 more".
std::string names(const Dataset& dataset, std::span<const std::int64_t> indices) {
  constexpr std::size_t kShown = 3;
  std::vector<std::string> names;
  for (const std::int64_t index : indices) names.push_back(dataset.sample_name(index));
  return runner::listed(names, kShown, "'");
}

}  // namespace

void refuse_not_finite(const StepNumbers& numbers, const StepPlace& place, const Dataset& dataset) {
  const std::optional<std::int64_t> part = numbers.first_broken_part();
  const std::optional<double> norm = numbers.gradient_norm();
  if (!part && (!norm || std::isfinite(*norm))) return;

  std::string message = part ? "the loss" : "the gradient";
  message += " is not finite at step " + std::to_string(place.step) + ", in epoch " +
             std::to_string(place.epoch);
  std::span<const std::int64_t> culprits = place.indices;
  const std::int64_t count = parts(place.plan, place.units);
  if (part && count > 1) {
    message += ", micro-batch " + std::to_string(*part + 1) + " of " + std::to_string(count);
    if (static_cast<std::int64_t>(culprits.size()) == place.units) {
      const std::int64_t begin = *part * place.plan.micro_batch;
      culprits = culprits.subspan(
          static_cast<std::size_t>(begin),
          static_cast<std::size_t>(std::min(place.plan.micro_batch, place.units - begin)));
    }
  }
  if (!culprits.empty()) message += ", on " + names(dataset, culprits);
  throw runner::StageError(runner::ErrorCode::kLossNotFinite, message)
      .at("/optimizer")
      .with_help("lower learning_rate, set gradient_clip_norm, or check these samples");
}

std::string disproportionate(const std::string& what, double number, std::optional<double> usual,
                             const StepPlace& place, const Dataset& dataset) {
  std::ostringstream line;
  line.precision(3);
  line << "step " << place.step << ", in epoch " << place.epoch << ": " << what << " is " << number;
  if (usual) line << " (usually " << *usual << ")";
  if (!place.indices.empty()) line << ", on " << names(dataset, place.indices);
  return line.str();
}

void refuse_endless_overflow(const StepPlace& place, double scale) {
  std::ostringstream shown;
  shown << scale;
  throw runner::StageError(
      runner::ErrorCode::kLossNotFinite,
      "the gradients have overflowed fp16 for many steps in a row, up to step " +
          std::to_string(place.step) + ", even though the loss is scaled by only " + shown.str())
      .at("/optimizer")
      .with_help("lower learning_rate, or set precision: bf16, which has the range of fp32");
}

void refuse_bad_unit(const TrainingStep& step, const Dataset& dataset, const Batch& batch) {
  const std::optional<BadUnit> bad = step.find_bad_unit(batch);
  if (!bad) return;
  const auto unit = static_cast<std::size_t>(bad->unit);
  const bool named = !batch.grouped() && unit < batch.indices.size();
  const std::string where = named ? "'" + dataset.sample_name(batch.indices[unit]) + "': " : "";
  throw runner::StageError(bad->code, where + bad->message);
}

}  // namespace stages
