#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/shared/error/diagnostic.h"
#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "stages/artifact/model.h"
#include "stages/data/image_dataset.h"
#include "stages/worker/requests.h"

namespace stages {

/// The checkpoint that node `id` of `graph` outputs, loaded from the weights that `trained` names.
/// Data are not needed: `graph` has the node and its other inputs. Nothing is written. Throws
/// runner::StageError with the full pointer of the option at fault.
runner::Result<std::shared_ptr<const Checkpoint>> load_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context);

/// The same without reading weights: its network is on the Meta device. nullptr if a node cannot be
/// planned.
runner::Result<std::shared_ptr<const Checkpoint>> outline_network_of_run(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, const RequestContext& context);

/// A training of a run, which is borrowed, and its output.
struct NodeNetwork {
  const runner::Node* node;
  std::shared_ptr<const Checkpoint> checkpoint;
};

/// The outputs of the trainings that are wired to the port `checkpoint` of node `id`, in their
/// order; networks that their trainings freed are not loaded. With outlines the weights are not
/// read; the result is empty if a node cannot be planned.
runner::Result<std::vector<NodeNetwork>> networks_wired_to(
    const runner::Graph& graph, const std::string& id, const runner::CheckpointSources& trained,
    std::string_view device, bool are_outlines, const RequestContext& context);

/// The CLIP that node `id` of `graph` makes from the weights at `reference`, not trained here, as a
/// checkpoint without classes. preprocessor_config.json next to the weights defines how an image
/// becomes its input. With `is_outline` the weights are not read, and the network is on the Meta
/// device. Throws as above.
runner::Result<std::shared_ptr<const Checkpoint>> network_of_model(
    const runner::Graph& graph, const std::string& id, const std::string& reference,
    std::string_view device, bool is_outline, const RequestContext& context);

/// How an image becomes the input of such a network. Throws runner::StageError if the checkpoint
/// does not say.
ImageDatasetOptions transform_of(const Checkpoint& checkpoint);

}  // namespace stages
