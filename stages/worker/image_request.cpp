#include "stages/worker/image_request.h"

#include <algorithm>
#include <thread>

#include <torch/nn/module.h>
#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/value/json_fields.h"
#include "stages/machine/device.h"
#include "stages/machine/threads.h"
#include "stages/machine/user_variables.h"
#include "stages/memory/policy.h"
#include "stages/plan/plan_forward.h"
#include "stages/python/python_host.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;

/// Returns the network specified in the request or, if it specifies none, the run's.
runner::Result<std::shared_ptr<const Checkpoint>> asked_network(const Json& request,
                                                                const runner::Graph& graph,
                                                                const std::string& device,
                                                                bool is_outline,
                                                                const RequestContext& context) {
  const runner::JsonFields<Json> fields(request, "the request");
  const std::string node = fields.text("node");
  if (request.contains("model"))
    return network_of_model(graph, node, fields.text("model"), device, is_outline, context);
  const runner::CheckpointSources trained =
      runner::checkpoint_sources_from_json(fields.object("checkpoints"));
  const auto network_of_run = is_outline ? outline_network_of_run : load_network_of_run;
  return network_of_run(graph, node, trained, device, context);
}

void say_what_is_left_out(const ImagePaths& found, const RequestContext& context) {
  if (const std::string not_taken = found.not_taken.text(); !not_taken.empty())
    context.say(not_taken);
  const std::int64_t count = found.other_formats.count_other_images();
  if (count == 0) return;
  context.say(std::to_string(count) +
              (count == 1 ? " file has the name of an image" : " files have the names of images") +
              " in an unsupported format: " + found.other_formats.other_images());
}

}  // namespace

runner::Result<ImageRequest> open_image_request(const Json& request,
                                                const RequestContext& context) {
  const runner::JsonFields<Json> fields(request, "the request");
  const runner::Graph graph = runner::graph_from_json(fields.object("graph"));
  const bool is_plan = request.contains("plan_for");
  auto found = list_images(fields.texts("paths"));
  if (!found) return found.errors();
  if (!is_plan) say_what_is_left_out(*found, context);
  const auto device = is_plan ? runner::Result<c10::Device>(c10::Device(c10::kCUDA, 0))
                              : choose_device(graph.device, find_gpus());
  if (!device) return device.errors();
  if (auto errors = refused_user_variables(use_threads(graph.threads), context.say);
      !errors.empty())
    return errors;
  const auto checkpoint = asked_network(request, graph, device->str(), is_plan, context);
  if (!checkpoint) return checkpoint.errors();
  ImageRequest opened{std::move(found->files), *device, *checkpoint};
  if (!opened.checkpoint) return opened;
  opened.transform = transform_of(*opened.checkpoint);
  opened.transform.loader.workers =
      std::clamp<std::int64_t>(std::thread::hardware_concurrency() / 2, 1, 8);
  return opened;
}

std::int64_t planned_bytes(const Checkpoint& checkpoint, const ImagesToPredict& images,
                           std::int64_t batch_size, const std::string& device_model,
                           const std::function<at::Tensor(torch::nn::Module& network,
                                                          const NamedTensors& inputs)>& forward) {
  MemoryPolicy policy;
  policy.precision = checkpoint.numerics.precision;
  policy.tf32 = checkpoint.numerics.tf32;
  policy.layout = checkpoint.numerics.layout;
  policy.pointer = checkpoint.numerics.pointer;
  const DatasetDescription data = images.describe(), trained_on = checkpoint.trained_on(data.size);
  UnseenPlan unseen({.device = "cuda"}, {.device_model = device_model});
  const ForwardToPlan pass{.name = checkpoint.model_stage,
                           .data = data,
                           .loader = images.loader(),
                           .batch_size = batch_size,
                           .policy = policy,
                           .outline = [&] { return checkpoint.model->outline(trained_on); },
                           .batch_option = "--batch-size",
                           .forward = forward};
  try {
    return plan_forward(pass, /*keeps_results=*/false, unseen).plan.needed;
  } catch (const runner::StageError& error) {
    if (!has_python() || error.code != runner::ErrorCode::kStageFailed) throw;
    return 0;
  }
}

}  // namespace stages
