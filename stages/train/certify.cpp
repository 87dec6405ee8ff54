#include "stages/train/certify.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <torch/utils.h>

#include "runner/shared/stage/stage.h"
#include "stages/artifact/label_sets.h"
#include "stages/ranks/gradient_sum.h"
#include "stages/ranks/rank_group.h"
#include "stages/train/gradient.h"
#include "stages/train/step_execution.h"
#include "stages/train/step_snapshot.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

using runner::Certificate;

constexpr std::int64_t kFewestSamples = 5, kPart = 2;  // the last part is smaller

/// Returns the size of the largest group of samples that a loss is computed over; 0 if no loss uses
/// groups.
std::int64_t largest_group(const TrainingStep& step) {
  std::int64_t group = 0;
  for (const LossTerm& term : step.terms()) group = std::max(group, term.samples_in_group);
  return group;
}

/// Returns the number of samples: one whole group and the beginning of another.
std::int64_t certified_samples(const TrainingStep& step) {
  return std::max(kFewestSamples, largest_group(step) + kPart);
}

/// Returns the part size used to certify a policy's split. Losses over groups are split between
/// groups, except with two passes.
std::int64_t certified_part(const TrainingStep& step, const StepPlan& plan) {
  return plan.two_pass ? kPart : std::max(kPart, largest_group(step));
}

/// Gradient tensors smaller than this share of the whole gradient are compared relative to that
/// share. A gradient that is zero except for rounding, such as that of the key biases of attention,
/// has no meaningful relative error.
constexpr double kLeast = 1e-3;

using Networks = std::vector<std::shared_ptr<torch::nn::Module>>;

/// The results of computing a step in one way.
struct Left {
  NamedTensors gradients;  // gradients of all trained weights; zeros for weights without one on
                           // this rank
  std::vector<std::pair<std::string, at::Tensor>> buffers;
  Means means;
};

Left compute(const TrainingStep& step, torch::nn::Module& network, const Batch& batch,
             const StepPlan& plan, std::uint64_t seed, const runner::RankOfRun& ranks = {}) {
  const PreparedNetwork prepared(network, plan.numerics, at::kCPU);
  const Batch own = step.prepare(step.arrange(batch, BatchUse::kTraining), {seed, 1});
  GradientSum sum(ranks);
  std::vector<at::Tensor> parameters = network.parameters();
  std::optional<ShardedGradients> sharded;
  std::optional<ShardedParameters> divided;
  if (plan.shards_gradients() && ranks.size > 1) {
    const StateShard shard = plan.shards_parameters()
                                 ? shard_of_blocks(network, parameters, ranks.rank, ranks.size)
                                 : shard_of(parameters, ranks.rank, ranks.size);
    if (plan.shards_parameters()) divided.emplace(network, parameters, shard, ranks);
    sharded.emplace(parameters, shard, ranks);
    parameters.clear();
  }
  StepNumbers numbers =
      accumulate_over_ranks(
          sum, parameters, step, plan, [] {},
          [&] {
            return accumulate_gradient(step, prepared, own, step.weight(batch), plan, {seed, 1},
                                       {.ranks = ranks, .sharded = sharded ? &*sharded : nullptr});
          })
          .numbers;
  if (sharded) together(ranks, [&] { sharded->finish(); });
  if (divided) divided->join();
  numbers.fetch();
  Left left;
  for (const auto& [name, weight] : trained_parameters(network))
    left.gradients.set(name, weight.grad().defined() ? weight.grad() : torch::zeros_like(weight));
  for (const auto& buffer : network.named_buffers())
    left.buffers.emplace_back(buffer.key(), buffer.value().clone());
  left.means = numbers.means();
  return left;
}

/// Has all ranks compute a step together, each with one of the identical `networks`, and returns
/// the result of the first rank.
Left compute_together(const TrainingStep& step, const Networks& networks, const Batch& batch,
                      const StepPlan& plan, std::uint64_t seed) {
  std::vector<Left> left(networks.size());
  run_as_ranks(static_cast<int>(networks.size()), [&](const runner::RankOfRun& own) {
    const auto index = static_cast<std::size_t>(own.rank);
    left[index] = compute(step, *networks[index], batch, plan, seed, own);
  });
  for (std::size_t rank = 1; plan.shards_gradients() && rank < left.size(); ++rank) {
    for (const auto& [name, gradient] : left[rank].gradients)
      left.front().gradients.set(name, left.front().gradients.at(name) + gradient);
  }
  return std::move(left.front());
}

/// Returns the weights after two steps of a stateful optimizer, and restores weights and buffers.
NamedTensors weights_after_steps(const TrainingStep& step, torch::nn::Module& network,
                                 const Batch& batch, const StepPlan& plan, std::uint64_t seed,
                                 const runner::RankOfRun& ranks = {}) {
  constexpr AdamOptions kRule{.learning_rate = 0.01,
                              .beta1 = 0.9,
                              .beta2 = 0.99,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .decoupled = true};
  const NamedTensors trained = trained_parameters(network);
  std::vector<at::Tensor> before;
  for (const auto& [name, weight] : trained) before.push_back(weight.detach().clone());
  drop_gradients(network);
  const StepSnapshot buffers(network, at::kCPU);
  StepExecution execution(step, network, {{.name = "", .optimizer = kRule, .parameters = trained}},
                          plan, {}, at::kCPU, {}, ranks);
  execution.divide_parameters();
  for (const std::int64_t number : {1, 2})
    execution.commit(execution.compute(batch, {seed, number}));
  execution.join_parameters();
  NamedTensors after;
  const torch::NoGradGuard no_graph;
  auto old = before.begin();
  for (const auto& [name, weight] : trained) {
    after.set(name, weight.detach().clone());
    at::Tensor(weight).copy_(*old++);
  }
  buffers.restore();
  return after;
}

/// Like weights_after_steps() for one network, but for several ranks that compute the steps
/// together.
std::vector<NamedTensors> weights_after_steps(const TrainingStep& step, const Networks& networks,
                                              const Batch& batch, const StepPlan& plan,
                                              std::uint64_t seed) {
  std::vector<NamedTensors> after(networks.size());
  run_as_ranks(static_cast<int>(networks.size()), [&](const runner::RankOfRun& own) {
    const auto index = static_cast<std::size_t>(own.rank);
    after[index] = weights_after_steps(step, *networks[index], batch, plan, seed, own);
  });
  return after;
}

double size_of(const at::Tensor& tensor) { return tensor.detach().norm().item<double>(); }

bool is_equal(const at::Tensor& a, const at::Tensor& b, double limit) {
  if (!a.is_floating_point()) return a.equal(b);
  return size_of(a - b) <= limit * std::max(size_of(b), kLeast);
}

bool drops(torch::nn::Module& network) {
  bool found = false;
  network.apply([&found](torch::nn::Module& module) {
    const auto* dropout = dynamic_cast<const Dropout*>(&module);
    found |= dropout && dropout->is_active();
  });
  return found;
}

std::string text(const ActivationCheckpointing& modules) {
  if (modules.blocks) return "block";
  std::string names;
  for (const std::string& name : modules.modules) names += (names.empty() ? "[" : ", ") + name;
  return names + "]";
}

/// Returns a string such as "micro_batch 2, two_pass on against the whole batch of 5, with
/// dropout".
std::string comparison(const StepPlan& plan, std::int64_t units, bool drops, std::size_t ranks) {
  std::vector<std::string> ways;
  if (ranks > 1) ways.push_back(std::to_string(ranks) + " ranks");
  if (plan.micro_batch > 0) ways.push_back("micro_batch " + std::to_string(plan.micro_batch));
  if (plan.two_pass) ways.push_back("two_pass on");
  if (plan.activation_checkpointing.recomputes())
    ways.push_back("activation_checkpointing " + text(plan.activation_checkpointing));
  if (plan.offloads_optimizer) ways.emplace_back("offload optimizer");
  if (plan.shards_optimizer()) ways.push_back("shard " + std::string(name(plan.sharding)));
  if (plan.optimizer_in_backward) ways.emplace_back("optimizer_in_backward true");
  std::string result;
  for (const std::string& way : ways) result += (result.empty() ? "" : ", ") + way;
  if (ways.empty()) result = "a repeated step";
  return result + " against the whole batch of " + std::to_string(units) +
         (drops ? ", with dropout" : "; the network has no dropout");
}

/// Converts a network to float64. Unlike torch::nn::Module::to(), leaves integers unchanged, since
/// a network may use them as indices.
void make_float64(torch::nn::Module& network) {
  const auto convert = [](at::Tensor tensor) {
    if (tensor.is_floating_point()) tensor.set_data(tensor.to(torch::kDouble));
  };
  for (const at::Tensor& parameter : network.parameters()) convert(parameter);
  for (const at::Tensor& buffer : network.buffers()) convert(buffer);
}

/// Gives a network random weights. The gains of normalization layers are far from zero, and the
/// biases are small: otherwise, differences between samples would vanish, and what is left of them
/// would be mostly rounding errors.
void randomize(torch::nn::Module& network, at::Generator generator) {
  constexpr double kLeastGain = 0.5, kBias = 0.1;
  const torch::NoGradGuard no_graph;
  for (const auto& item : network.named_parameters()) {
    at::Tensor weight = item.value();
    if (!weight.is_floating_point()) continue;
    if (weight.dim() > 1) {
      const std::int64_t outputs = std::max<std::int64_t>(weight.size(0), 1);
      const auto inputs = static_cast<double>(weight.numel() / outputs);
      weight.normal_(0, std::min(0.5, 1 / std::sqrt(inputs)), generator);
    } else if (weight.dim() == 1 && !item.key().ends_with("bias")) {
      weight.uniform_(kLeastGain, 1 + kLeastGain, generator);
    } else {
      weight.normal_(0, kBias, generator);
    }
  }
}

Batch random_batch(const DatasetDescription& data, std::int64_t samples, at::Generator generator) {
  const auto classes = std::max<std::int64_t>(2, static_cast<std::int64_t>(data.classes.size()));
  NamedTensors tensors;
  for (const TensorSpec& one : data.tensors) {
    std::vector<std::int64_t> shape = {samples};
    shape.insert(shape.end(), one.shape.begin(), one.shape.end());
    const std::int64_t numbers = one.name == kLabelSet ? 2
                                 : one.name == "caption"
                                     ? static_cast<std::int64_t>(data.captions.size())
                                     : classes;
    tensors.set(one.name,
                at::isFloatingType(one.dtype)
                    ? torch::randn(shape, generator, torch::kDouble)
                    : torch::randint(numbers, shape, generator, torch::TensorOptions(one.dtype)));
  }
  return Batch(tensors, samples);
}

/// Restores torch's random number generators, which building a network may advance.
class ScopedGenerators {
 public:
  ScopedGenerators() : before_(generator_states(at::kCPU)) {}
  ~ScopedGenerators() { set_generator_states(before_); }
  ScopedGenerators(const ScopedGenerators&) = delete;
  ScopedGenerators& operator=(const ScopedGenerators&) = delete;

 private:
  const GeneratorStates before_;
};

/// True if a batch may be split although the plan keeps it whole.
bool may_cut(const TrainingStep& step, const StepPlan& plan) {
  const auto couples_all = [](const LossTerm& term) {
    return term.coupling == Coupling::kWholeBatch;
  };
  return !step.mixes_samples() && !plan.optimizer_in_backward &&
         std::ranges::none_of(step.terms(), couples_all);
}

/// Returns the plan that the trainer would use, for the small network in float64.
StepPlan plan_of(const TrainingToPlan& training, torch::nn::Module& network,
                 runner::RunContext& context) {
  MemoryPolicy policy = training.policy;
  policy.precision = {};
  policy.tf32 = false;
  policy.layout = Layout::kContiguous;
  StepPlan plan = assemble_step(training.step, network, training.data.size, training.options,
                                policy, at::kCPU, context)
                      .plan();
  const bool is_cut =
      plan.micro_batch > 0 || (training.step.declares_couplings() && may_cut(training.step, plan));
  if (is_cut) plan.micro_batch = certified_part(training.step, plan);
  return plan;
}

}  // namespace

Certificate compare_gradients(const TrainingStep& step, torch::nn::Module& network,
                              const Batch& batch, const StepPlan& plan, std::uint64_t seed,
                              const Networks& of_ranks) {
  Certificate certificate;
  certificate.compared = comparison(plan, batch.units(), drops(network), of_ranks.size());
  if (!of_ranks.empty() && mixes_batch(step)) certificate.limit = Certificate::kLimitOfNormed;
  drop_gradients(network);
  const StepSnapshot before(network, at::kCPU);
  const Left whole = compute(step, network, batch, {}, seed);
  before.restore();
  const Left parts = of_ranks.empty() ? compute(step, network, batch, plan, seed)
                                      : compute_together(step, of_ranks, batch, plan, seed);
  before.restore();

  double all = 0;
  for (const auto& [name, gradient] : whole.gradients) all = std::hypot(all, size_of(gradient));
  for (const auto& [name, gradient] : whole.gradients) {
    const double reference = std::max(size_of(gradient), kLeast * all);
    const double error = size_of(parts.gradients.at(name) - gradient);
    certificate.parameters.push_back({name, reference > 0 ? error / reference : error});
  }
  if (!is_equal(torch::tensor(parts.means.loss, torch::kDouble),
                torch::tensor(whole.means.loss, torch::kDouble), certificate.limit))
    certificate.changed.push_back("the loss");
  for (std::size_t i = 0; i < whole.buffers.size(); ++i) {
    if (!is_equal(parts.buffers[i].second, whole.buffers[i].second, certificate.limit))
      certificate.changed.push_back("the buffer " + whole.buffers[i].first);
  }
  const auto compare_weights = [&](const NamedTensors& after, const NamedTensors& expected,
                                   const std::string& where) {
    for (const auto& [name, weight] : after) {
      if (!weight.equal(expected.at(name)))
        certificate.changed.push_back("the weight " + name + " after two steps" + where);
    }
  };
  StepPlan at_once = plan;
  at_once.offloads_optimizer = at_once.optimizer_in_backward = false;
  at_once.sharding = Sharding::kNone;
  if (plan.offloads_optimizer || plan.optimizer_in_backward) {
    compare_weights(weights_after_steps(step, network, batch, plan, seed),
                    weights_after_steps(step, network, batch, at_once, seed), "");
  }
  if (plan.shards_optimizer() && !of_ranks.empty()) {
    const std::vector<NamedTensors> all = weights_after_steps(step, of_ranks, batch, plan, seed);
    // Sharded gradients are summed in a different order, so only the ranks are compared.
    const NamedTensors expected =
        plan.shards_gradients() ? all.front()
                                : weights_after_steps(step, of_ranks, batch, at_once, seed).front();
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      compare_weights(all[rank], expected, " on rank " + std::to_string(rank));
  }
  return certificate;
}

Certificate certify(const TrainingToPlan& training, runner::PlanContext& context) {
  const std::uint64_t seed = context.node().seed;
  const auto* shrinkable = dynamic_cast<const ShrinkableModel*>(&training.model);
  const Shrunken small = shrinkable ? shrinkable->shrunken(training.data) : Shrunken{};
  const DatasetDescription& data = shrinkable ? small.data : training.data;
  const ScopedGenerators generators;
  try {
    at::Generator generator;
    DatasetDescription network_data = source_of(data);
    training.step.describe(network_data);
    const auto build = [&] {
      auto network = (shrinkable ? *small.model : training.model).build(network_data, seed);
      make_float64(*network);
      generator = at::detail::createCPUGenerator(seed);
      randomize(*network, generator);
      return network;
    };
    const auto network = build();
    const StepPlan plan = plan_of(training, *network, context);
    const Batch batch = random_batch(data, certified_samples(training.step), generator);
    const int ranks = context.node().ranks.size;
    Networks of_ranks;
    for (int rank = 0; ranks > 1 && rank < ranks; ++rank) {
      of_ranks.push_back(build());
      of_ranks.back()->train();
    }
    return compare_gradients(training.step, *network, batch, plan, seed, of_ranks);
  } catch (const runner::StageError& error) {
    return {.refused = error.what()};
  }
}

}  // namespace stages
