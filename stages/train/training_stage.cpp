#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "runner/shared/disk/file_digests.h"
#include "runner/shared/error/stage_error.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/plan_context.h"
#include "runner/shared/stage/run_layout.h"
#include "stages/artifact/dataset.h"
#include "stages/artifact/model.h"
#include "stages/memory/policy.h"
#include "stages/plan/memory_budget.h"
#include "stages/plan/plan_forward.h"
#include "stages/plan/recovery.h"
#include "stages/plan/summarize.h"
#include "stages/python/python_host.h"
#include "stages/train/certify.h"
#include "stages/train/earlier_weights.h"
#include "stages/train/halving_retries.h"
#include "stages/train/layer_decay.h"
#include "stages/train/plan_training.h"
#include "stages/train/range_test.h"
#include "stages/train/sharded_network.h"
#include "stages/train/training_kind.h"
#include "stages/train/warm_start.h"

namespace stages {
namespace {

using runner::ErrorCode;
using runner::StageError;

struct TrainingOptions {
  TrainerOptions trainer;
  std::int64_t gradient_accumulation_steps = 1;
  std::string pointer;  // the stage's location in the recipe, "/train"
  std::optional<std::string> warm_start;
};

/// Returns how many of the needed bytes in `plan` the allocator hands out to tensors and kernels.
std::int64_t planned_for_tensors(const runner::MemoryPlan& plan) {
  std::int64_t bytes = plan.needed;
  for (const runner::NamedBytes& term : plan.terms) {
    if (term.name == kMarginTerm || term.name == kRoundingTerm || term.name == kContextTerm)
      bytes -= term.bytes;
  }
  return bytes;
}

class TrainingStage final : public runner::Stage {
 public:
  TrainingStage(TrainingOptions options, TrainingKind kind)
      : options_(std::move(options)), kind_(std::move(kind)) {}

  std::string fingerprint() const override {
    return options_.warm_start ? runner::digest_below(*options_.warm_start) : "";
  }

  std::optional<runner::Outputs> plan(const runner::Inputs& inputs,
                                      runner::PlanContext& context) override {
    try {
      return planned(inputs, context);
    } catch (const StageError&) {
      if (context.node().trained || context.node().resuming) throw;
      runner::FoundErrors found;
      found.during([] { throw; });
      look_for_others(found, inputs, context);
      found.throw_any();
      throw;
    }
  }

  runner::Outputs run(const runner::Inputs& inputs, runner::RunContext& context) override {
    const std::optional<EarlierWeights> trained = find_earlier_weights(options_.trainer, context);
    const Setup setup = set_up(inputs, trained, context.node().seed);
    Checkpoint& checkpoint = *setup.checkpoint;
    TrainingResult result;
    const bool is_reused = is_reused_by_first(trained, context.node().ranks);
    if (is_reused && !trained) {  // reused by rank 0, the only rank that evaluates
      checkpoint.network = checkpoint.model->outline(setup.network_data);
      return put_out(setup, result, trained);
    }
    if (trained && kind_.lets_network_go) {
      result = report_earlier_weights(*trained, context);
      checkpoint.load = loader_of(checkpoint, setup.network_data, *context.node().trained, context);
      return put_out(setup, result, trained);
    }
    do_with_retry(*inputs.get<MemoryPolicy>("memory"), at::kCPU, "making the network", context,
                  [&] {
                    checkpoint.network = built_network(setup, inputs, context);
                    if (trained)
                      result = load_earlier_weights(*trained, *checkpoint.network, context);
                  });
    if (!trained) result = train_anew(setup, inputs, context);
    checkpoint.network->eval();
    if (!trained && lets_network_go(inputs, context)) {
      checkpoint.network.reset();
      checkpoint.load = loader_of(checkpoint, setup.network_data, result, context);
    }
    return put_out(setup, result, trained);
  }

 private:
  runner::Outputs planned(const runner::Inputs& inputs, runner::PlanContext& context) {
    const std::optional<EarlierWeights> trained = find_earlier_weights(options_.trainer, context);
    const Setup setup = set_up(inputs, trained, context.node().seed);
    if (!trained) plan_training_of(setup, inputs, context);
    const bool starts_warm = !trained && options_.warm_start && !context.node().resuming;
    const bool is_let_go = trained ? kind_.lets_network_go : lets_network_go(inputs, context);
    if (!is_let_go || starts_warm || trained)
      setup.checkpoint->network = setup.checkpoint->model->outline(setup.network_data);
    if (starts_warm) check_warm_start(*setup.checkpoint->network, *options_.warm_start, context);
    if (is_let_go) setup.checkpoint->network.reset();
    return {{"checkpoint", setup.checkpoint}};
  }

  /// Collects the other errors for which this training stage would be rejected, so that one mistake
  /// does not hide another.
  void look_for_others(runner::FoundErrors& found, const runner::Inputs& inputs,
                       runner::RunContext& context) const {
    TrainingData data{as_trained(inputs.get<Dataset>("train")), inputs.find<Dataset>("validation")};
    if (data.train->describe().size == 0) return;
    const auto model = inputs.get<Model>("model");
    bool is_drawn = !kind_.draw;
    found.during([&] {
      if (kind_.draw) data = kind_.draw(std::move(data), context.node().seed);
      is_drawn = true;
    });
    if (!is_drawn) return;
    DatasetDescription network_data = source_of(data.train->describe());
    found.during([&] {
      kind_.make_step(*model, data, *inputs.get<MemoryPolicy>("memory"))->describe(network_data);
    });
    std::shared_ptr<torch::nn::Module> network;
    found.during([&] { network = model->outline(network_data); });
    if (!network) return;
    if (options_.warm_start)
      found.during([&] { check_warm_start(*network, *options_.warm_start, context); });
    found.during([&] { groups_of_training(*network, options_.trainer); });
  }

  /// The inputs as this training stage uses them.
  struct Setup {
    DatasetDescription network_data;         // the data that the network is made for
    std::shared_ptr<Checkpoint> checkpoint;  // without its network
    TrainingData data;                       // empty if an earlier run's weights are reused
    std::unique_ptr<TrainingStep> step;      // null if an earlier run's weights are reused
  };

  Setup set_up(const runner::Inputs& inputs, const std::optional<EarlierWeights>& trained,
               std::uint64_t seed) const {
    const auto model = inputs.get<Model>("model");
    Setup setup{.checkpoint = std::make_shared<Checkpoint>()};
    if (trained) {
      setup.network_data = trained->data;
    } else {
      setup.data = {as_trained(inputs.get<Dataset>("train")), inputs.find<Dataset>("validation")};
      if (setup.data.train->describe().size == 0) {
        throw StageError(ErrorCode::kTooFewSamples, "the training data has no samples")
            .with_help("assign a fraction of the data to it, such as data.split.train=0.7");
      }
      if (kind_.draw) setup.data = kind_.draw(std::move(setup.data), seed);
      setup.network_data = source_of(setup.data.train->describe());
      setup.step = kind_.make_step(*model, setup.data, *inputs.get<MemoryPolicy>("memory"));
      setup.step->describe(setup.network_data);
    }
    setup.checkpoint->model = model;
    setup.checkpoint->model_stage = inputs.source("model");
    setup.checkpoint->numerics = inputs.get<MemoryPolicy>("memory")->numerics();
    setup.checkpoint->describe(setup.network_data);
    return setup;
  }

  static runner::Outputs put_out(const Setup& setup, const TrainingResult& result,
                                 const std::optional<EarlierWeights>& trained) {
    Checkpoint& checkpoint = *setup.checkpoint;
    checkpoint.epoch = result.epoch;
    checkpoint.step = result.step;
    checkpoint.file = result.file;
    checkpoint.validation = result.validation;
    if (trained) checkpoint.weights = trained->weights;
    return {{"checkpoint", setup.checkpoint}};
  }

  /// Returns the policy that the plan chose, or else the recipe's.
  MemoryPolicy chosen_policy(const runner::Inputs& inputs) const {
    return planned_policy_.value_or(*inputs.get<MemoryPolicy>("memory"));
  }

  /// True if the network is freed after training. With sharded parameters, no rank has all of it.
  bool lets_network_go(const runner::Inputs& inputs, const runner::RunContext& context) const {
    const bool shards_parameters =
        chosen_policy(inputs).sharding == Sharding::kParameters && context.node().ranks.size > 1;
    return kind_.lets_network_go || shards_parameters;
  }

  std::shared_ptr<torch::nn::Module> built_network(const Setup& setup, const runner::Inputs& inputs,
                                                   const runner::RunContext& context) const {
    const Model& model = *setup.checkpoint->model;
    const auto build = [&] { return model.build(setup.network_data, context.node().seed); };
    if (!setup.step) return build();  // for an earlier run's weights
    return built_for_rank(model, setup.network_data, options_.trainer, chosen_policy(inputs),
                          context.node().ranks, build);
  }

  /// Returns a function that rebuilds the network, with the weights that training kept.
  static std::function<std::shared_ptr<torch::nn::Module>()> loader_of(
      const Checkpoint& checkpoint, const DatasetDescription& data, const TrainingResult& result,
      const runner::RunContext& context) {
    return [model = checkpoint.model, data, folder = result.file.parent_path(),
            seed = context.node().seed, device = context.node().device] {
      auto network = model->build(data, seed);
      read_weights(folder, *network, at::Device(device));
      network->eval();
      return network;
    };
  }

  /// Returns a function that rebuilds the network, with the weights from `source`.
  std::function<std::shared_ptr<torch::nn::Module>()> loader_of(
      const Checkpoint& checkpoint, const DatasetDescription& data,
      const runner::CheckpointSource& source, const runner::RunContext& context) const {
    return [model = checkpoint.model, data, source, options = options_.trainer,
            seed = context.node().seed, device = context.node().device] {
      auto network = model->build(data, seed);
      put_weights(read_earlier_weights(source, options).checkpoint, *network, at::Device(device));
      network->eval();
      return network;
    };
  }

  /// Returns the options and the policy in effect. With gradient_accumulation_steps, the recipe's
  /// batch_size is the size of a micro-batch, and a step uses as many of these as that option says.
  std::pair<TrainerOptions, MemoryPolicy> effective_options(const runner::Inputs& inputs,
                                                            runner::RunContext& context) const {
    TrainerOptions options = options_.trainer;
    MemoryPolicy policy = *inputs.get<MemoryPolicy>("memory");
    options.model_stage = inputs.source("model");
    options.planned_live = planned_live_;
    options.planned_needed = planned_needed_;
    // Like the published program, this makes no choices until memory has run out.
    if (policy.recovery.halves_batch) policy.allow = Allow::kNothing;
    const std::int64_t times = options_.gradient_accumulation_steps;
    if (times == 1) return {std::move(options), std::move(policy)};
    if (policy.micro_batch) {
      throw StageError(ErrorCode::kOptionConflict,
                       "gradient_accumulation_steps is " + std::to_string(times) +
                           " together with micro_batch " + std::to_string(*policy.micro_batch) +
                           ": both split the batch")
          .at("/gradient_accumulation_steps")
          .with_help(
              "set memory.micro_batch: auto, or gradient_accumulation_steps: 1 and batch_size to "
              "the size of the whole batch");
    }
    options.accumulated_micro_batch = policy.micro_batch = options.batch_size;
    policy.micro_batch_is_most = true;
    options.batch_size *= times;
    options.accumulated_by = options_.pointer;
    context.say("Effective batch size: " + std::to_string(options.batch_size) + " (" +
                std::to_string(times) + " x " + std::to_string(*policy.micro_batch) + ")");
    return {std::move(options), std::move(policy)};
  }

  struct DescribedData {
    explicit DescribedData(const TrainingData& data) : train(data.train->describe()) {
      if (data.validation) validation = data.validation->describe();
    }
    DatasetDescription train;
    std::optional<DatasetDescription> validation;
  };

  /// The result borrows all arguments.
  TrainingToPlan to_plan(const Setup& setup, const DescribedData& data,
                         const runner::Inputs& inputs, const TrainerOptions& options,
                         const MemoryPolicy& policy) const {
    std::function<std::unique_ptr<TrainingStep>(const MemoryPolicy&)> step_under;
    if (std::ranges::any_of(setup.step->terms(), &LossTerm::has_forms)) {
      step_under = [this, &setup](const MemoryPolicy& other) {
        return kind_.make_step(*setup.checkpoint->model, setup.data, other);
      };
    }
    return {.step = *setup.step,
            .model = *setup.checkpoint->model,
            .data = data.train,
            .network_data = setup.network_data,
            .validation = data.validation ? &*data.validation : nullptr,
            .kept_data = inputs.get<Dataset>("train").get(),
            .kept_validation = setup.data.validation.get(),
            .loader = training_loader(*setup.data.train, *setup.step, options.batch_size),
            .options = options,
            .policy = policy,
            .step_under = std::move(step_under),
            .shared_model = setup.checkpoint->model,
            .measured = has_python() ? measured_.get() : nullptr,
            .samples = setup.data.train,
            .validation_samples = setup.data.validation};
  }

  /// Adds 8-bit optimizer state, which a plan never chooses, to the alternatives.
  void list_8bit_state(PlannedStep& planned, TrainerOptions options, runner::PlanContext& context,
                       const std::function<TrainingToPlan(const TrainerOptions&)>& with) const {
    const std::optional<OptimizerOptions> optimizer = with_8bit_state(options.optimizer);
    if (!optimizer) return;
    options.optimizer = *optimizer;
    const TrainingToPlan training = with(options);
    const runner::MemoryPlan plan =
        policy_search(training, /*budget=*/0, context).trace(planned.policy).plan;
    if (plan.needed >= planned.plan.needed) return;
    planned.plan.alternatives.push_back(
        {.overrides = {option_of(options_.pointer, "optimizer.state_bits=8")},
         .exactness = "declared",
         .needed = plan.needed});
  }

  void plan_training_of(const Setup& setup, const runner::Inputs& inputs,
                        runner::PlanContext& context) {
    const auto [options, policy] = effective_options(inputs, context);
    if (!setup.data.validation) check_without_validation(options);
    const DescribedData data(setup.data);
    const auto under = [&, &options = options](const MemoryPolicy& which) {
      return to_plan(setup, data, inputs, options, which);
    };
    PlannedStep planned = plan_training(under(policy), context);
    if (!planned.plan.fits() && planned.plan.measured.empty()) {
      list_8bit_state(planned, options, context, [&](const TrainerOptions& other) {
        return to_plan(setup, data, inputs, other, planned.policy);
      });
    }
    held_ = context.held();
    planned_live_ = planned_for_tensors(planned.plan);
    planned_needed_ = planned.plan.needed;
    context.plan(std::move(planned.plan));
    planned_policy_ = planned.policy;
    if (!context.dry().wants_certificate) return;
    // The small network for the certificate may lack a chosen block, so all of its own blocks are
    // recomputed.
    ActivationCheckpointing& recomputed = planned.policy.activation_checkpointing;
    if (policy.checkpointing_is_open && !recomputed.modules.empty()) recomputed = {.blocks = true};
    context.certify(certify(under(planned.policy), context));
  }

  TrainingResult train_anew(const Setup& setup, const runner::Inputs& inputs,
                            runner::RunContext& context) const {
    torch::nn::Module& network = *setup.checkpoint->network;
    for (const std::string& line : setup.checkpoint->model->notes(network)) context.say(line);
    for (const std::string& line : setup.step->notes()) context.say(line);
    if (options_.warm_start) warm_start(network, *options_.warm_start, context);
    const auto [options, policy] = effective_options(inputs, context);
    for (const std::string& line : notes_of(options)) context.say(line);
    const Dataset& train_data = *setup.data.train;
    if (training_loader(train_data, *setup.step, options.batch_size).drop_last &&
        !train_data.loader().drop_last) {
      context.say(
          "each epoch leaves out one sample: the last batch would contain only that one, and " +
          setup.step->why_mixed());
    }
    if (auto* test = dynamic_cast<RangeTest*>(context.node().observer))
      test_range(*test, setup, options, policy, context);
    if (policy.recovery.halves_batch)
      return train_in_halves(*setup.step, network, setup.data, options, policy, context);
    const bool was_chosen = planned_policy_ && policy.leaves_a_choice();
    if (!was_chosen)
      return train(*setup.step, network, setup.data, options, planned_policy_.value_or(policy),
                   context);
    const DescribedData data(setup.data);
    measured_->close();
    const TrainingToPlan again = to_plan(setup, data, inputs, options, policy);
    UnseenPlan unseen(context.node(), {}, held_);
    return train(*setup.step, network, setup.data, options, *planned_policy_, context,
                 search_again(policy_search(again, /*budget=*/0, unseen)));
  }

  /// Tests learning rates instead of training. The step is the one that was planned.
  [[noreturn]] void test_range(RangeTest& test, const Setup& setup, const TrainerOptions& options,
                               const MemoryPolicy& policy, runner::RunContext& context) const {
    const Dataset& data = *setup.data.train;
    TrainerOptions in_one_epoch = options;
    in_one_epoch.epochs = 1;
    in_one_epoch.schedule = ConstantSchedule{};
    const std::int64_t steps = training_length(
        data.describe().size, training_loader(data, *setup.step, options.batch_size).drop_last,
        in_one_epoch);
    try {
      train(*setup.step, *setup.checkpoint->network, {setup.data.train, nullptr},
            test.begin(options, options_.pointer, steps), planned_policy_.value_or(policy),
            context);
    } catch (const StageError& error) {
      if (error.code != ErrorCode::kLossNotFinite) throw;
      test.diverge();
    }
    throw runner::Canceled{};
  }

  const TrainingOptions options_;
  const TrainingKind kind_;
  // Set by plan():
  std::optional<std::int64_t> planned_live_, planned_needed_;  // bytes
  std::optional<MemoryPolicy> planned_policy_;  // nullopt if the recipe leaves nothing
                                                // open
  const std::unique_ptr<MeasuredTraining> measured_ = std::make_unique<MeasuredTraining>();
  std::vector<runner::NamedBytes> held_;  // memory of other nodes while this node runs
};

}  // namespace

runner::Result<std::unique_ptr<runner::Stage>> make_training_stage(runner::ConfigReader& reader,
                                                                   TrainingKind kind) {
  TrainingOptions options;
  options.trainer = read_trainer_options(reader, kind.scores, kind.batch_option, kind.parts,
                                         kind.higher_is_better);
  options.trainer.trained_first = kind.trained_first;
  options.trainer.enough_accuracy = kind.enough_accuracy;
  options.pointer = reader.pointer();
  if (kind.batch_option == "batch_size")
    reader.read("gradient_accumulation_steps", options.gradient_accumulation_steps);
  reader.read("warm_start", options.warm_start);
  if (auto errors = reader.finish(); !errors.empty()) return errors;
  return std::unique_ptr<runner::Stage>(
      std::make_unique<TrainingStage>(std::move(options), std::move(kind)));
}

}  // namespace stages
