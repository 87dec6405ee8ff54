#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <nlohmann/json_fwd.hpp>

#include "runner/shared/error/diagnostic.h"
#include "stages/artifact/model.h"
#include "stages/data/image_dataset.h"
#include "stages/data/images_to_predict.h"
#include "stages/worker/requests.h"

namespace stages {

/// The part shared by the requests about a trained network and some images: "predict" and "embed".
struct ImageRequest {
  std::vector<std::string> files;  ///< the images of "paths", in order
  at::Device device;
  /// Null if the request only asks for a plan and the network cannot be planned.
  std::shared_ptr<const Checkpoint> checkpoint = {};
  ImageDatasetOptions transform = {};  ///< how an image becomes the network's input
};

/// Reads "graph", "node", "checkpoints" or "model", "paths" and "plan_for" (optional) from a
/// request, finds the images, chooses the device and loads the network. With "plan_for", the
/// network is an outline, the device is the first GPU, and nothing is reported. Throws like
/// load_network_of_run().
runner::Result<ImageRequest> open_image_request(const nlohmann::ordered_json& request,
                                                const RequestContext& context);

/// Returns how many bytes running `forward` on the images needs on a GPU named `device_model`, in
/// batches of `batch_size`; 0 if unknown, because Python code needs values that a dry run does not
/// have.
std::int64_t planned_bytes(const Checkpoint& checkpoint, const ImagesToPredict& images,
                           std::int64_t batch_size, const std::string& device_model,
                           const std::function<at::Tensor(torch::nn::Module& network,
                                                          const NamedTensors& inputs)>& forward);

}  // namespace stages
