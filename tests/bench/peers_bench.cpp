// Training under a budget that is too small for the whole batch: from the plan to the first step,
// and the gradient of that step. find_batch.py does the same with other tools, which look for a
// batch that fits.

#include <filesystem>
#include <memory>
#include <utility>

#include <torch/types.h>

#include "stages/machine/counting_allocator.h"
#include "stages/machine/cpu_pool.h"
#include "stages/machine/threads.h"
#include "stages/train/certify.h"
#include "stages/train/step_execution.h"
#include "stages/weights/safetensors.h"
#include "tests/bench/blocks.h"
#include "tests/support/planning_context.h"
#include "tests/support/tower_planning.h"

namespace {

using namespace stages;

constexpr std::int64_t kBatches = 4;  // in the dataset
constexpr int kSteps = 3;

ClipVisionConfig config_of(const nlohmann::json& model) {
  ClipVisionConfig config = planned_tower(model.at("num_hidden_layers"));
  config.tower.block.hidden_size = model.at("hidden_size");
  config.tower.block.intermediate_size = model.at("intermediate_size");
  config.tower.block.num_attention_heads = model.at("num_attention_heads");
  config.tower.patch_size = model.at("patch_size");
  return config;
}

class PeersBench {
 public:
  explicit PeersBench(const nlohmann::json& options)
      : batch_(options.at("batch")),
        data_(kBatches * batch_, options.at("image_size"), options.at("classes")),
        description_(data_.describe()),
        model_(config_of(options.at("model"))) {
    training_.batch_size = batch_;
    training_.optimizer = adamw(1e-4);
    training_.monitor = "loss";
    training_.keep = Keep::kLast;
    policy_.pointer = "/memory";
    policy_.allow = Allow::kExact;
    policy_.checkpointing_is_open = policy_.two_pass_is_open = true;
    const std::int64_t side = options.at("image_size"), classes = options.at("classes");
    images_ = torch::randn({kBatches * batch_, 3, side, side}, at::detail::createCPUGenerator(7));
    labels_ = torch::arange(kBatches * batch_).remainder(classes);
  }

  /// Writes the weights and the data for the peers, and returns the bytes that the whole batch and
  /// the smallest plan need.
  nlohmann::json prepare(const std::filesystem::path& folder) {
    const auto network = model_.build(description_, 1);
    NamedTensors weights;
    for (const auto& item : network->named_parameters())
      weights.set(item.key(), item.value().detach());
    write_safetensors(folder / "weights.safetensors", weights);
    write_safetensors(folder / "data.safetensors", {{"images", images_}, {"labels", labels_}});
    return {{"whole", planned(std::int64_t{1} << 40).plan.needed},
            {"least", planned(1000).plan.needed}};
  }

  nlohmann::json run(std::int64_t budget) {
    const CpuPool pool;
    CountingAllocator counter;
    counter.set_limit(budget);
    const auto network = model_.build(description_, 1);
    const Batch batch = first_batch();
    const double began = seconds_now();
    const PlannedStep planned = this->planned(budget);
    const double planning = seconds_now() - began;
    PlanningContext running;
    StepExecution execution =
        assemble_step(step_, *network, batch_, training_, planned.policy, at::kCPU, running);
    double first = 0;
    std::int64_t done = 0;
    for (int step = 1; step <= kSteps; ++step) {
      try {
        execution.commit(execution.compute(batch, {1, step}));
        ++done;
      } catch (const c10::OutOfMemoryError&) {
        network->zero_grad();
      }
      if (done == 1 && first == 0) first = seconds_now() - began;
    }
    nlohmann::json said = {{"ooms", counter.refusals()},
                           {"peak", pool.peak_reserved()},
                           {"seconds", first},
                           {"planning_seconds", planning},
                           {"steps", done},
                           {"batch", batch_},
                           {"way", planned.plan.choice->summary}};
    counter.set_limit({});
    said["error"] = error_of(execution.plan());
    return said;
  }

 private:
  PlannedStep planned(std::int64_t budget) {
    PlanningContext context;
    context.asked.budget = {"a test", budget};
    return plan_training({.step = step_,
                          .model = model_,
                          .data = description_,
                          .network_data = description_,
                          .loader = data_.loader(),
                          .options = training_,
                          .policy = policy_},
                         context);
  }
  Batch first_batch() const {
    return Batch({{"image", images_.narrow(0, 0, batch_).clone()},
                  {"label", labels_.narrow(0, 0, batch_).clone()}},
                 batch_);
  }
  /// The largest error of any parameter's gradient in the first step, in float64 and relative to
  /// the gradient of the whole batch at once.
  double error_of(const StepPlan& plan) const {
    const auto network = model_.build(description_, 1);
    network->to(torch::kDouble);
    network->train();
    const Batch batch({{"image", images_.narrow(0, 0, batch_).to(torch::kDouble)},
                       {"label", labels_.narrow(0, 0, batch_).clone()}},
                      batch_);
    return compare_gradients(step_, *network, batch, plan, 1).worst();
  }

  const std::int64_t batch_;
  const NoiseImages data_;
  const DatasetDescription description_;
  const ClipVision model_;
  const ClassifyingStep step_{model_};
  TrainerOptions training_;
  MemoryPolicy policy_;
  at::Tensor images_, labels_;
};

}  // namespace

/// One argument, JSON: {"folder", "threads", "batch", "image_size", "classes", "model": {},
/// "budget": bytes}. Without a budget, writes weights and data to the folder, and answers {"whole",
/// "least"}: bytes.
int main(int, char** arguments) {
  const auto options = nlohmann::json::parse(arguments[1]);
  use_threads(options.at("threads").get<int>());
  PeersBench bench(options);
  const std::int64_t budget = options.value("budget", std::int64_t{0});
  report(budget > 0 ? bench.run(budget) : bench.prepare(options.at("folder").get<std::string>()));
}
