#include "stages/retina/predict_ensemble.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/loader.h"
#include "stages/data/images_to_predict.h"
#include "stages/evaluate/predictor.h"
#include "stages/machine/device.h"
#include "stages/machine/threads.h"
#include "stages/machine/user_variables.h"
#include "stages/numerics/prepared_network.h"
#include "stages/plan/plan_forward.h"
#include "stages/retina/vote.h"
#include "stages/worker/activation_folder.h"
#include "stages/worker/feature_map_picture.h"
#include "stages/worker/image_request.h"
#include "stages/worker/network_of_run.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

struct EnsembleRequest {
  std::int64_t top = 0, batch_size = 0;
  bool skip_corrupt = false;
  TestTimeFlip flip = TestTimeFlip::kNone;
  std::string explain;  ///< a folder; empty: nothing is drawn
};

/// Returns the names of all classes: in numerical order if the training stages specify all numbers,
/// otherwise sorted by name.
std::vector<std::string> classes_of(const std::vector<NodeNetwork>& networks) {
  std::map<std::int64_t, std::string> numbered;
  std::set<std::string> named;
  std::int64_t in_all = 0;
  for (const auto& [node, checkpoint] : networks) {
    in_all = std::max(in_all, checkpoint->pair_of);
    const runner::Value* written = node->options.find("classes");
    for (std::size_t i = 0; i < checkpoint->classes.size(); ++i) {
      named.insert(checkpoint->classes[i]);
      if (!written || !written->list() || i >= written->list()->size()) continue;
      if (const auto* number = std::get_if<std::int64_t>(&(*written->list())[i].data))
        numbered[*number] = checkpoint->classes[i];
    }
  }
  std::vector<std::string> classes;
  if (numbered.size() == named.size()) {
    for (const auto& [number, name] : numbered) classes.push_back(name);
  } else {
    classes.assign(named.begin(), named.end());
  }
  if (std::ssize(classes) == in_all) return classes;
  throw StageError(ErrorCode::kLabelOutOfRange, "the run's networks cover only " +
                                                    std::to_string(classes.size()) + " of " +
                                                    std::to_string(in_all) + " classes")
      .with_help(
          "an ensemble needs a network for each class pair: `retort resume` trains the missing "
          "ones");
}

at::Tensor pair_logits_of(const Checkpoint& checkpoint, TestTimeFlip flip,
                          torch::nn::Module& network, const NamedTensors& inputs) {
  return flipped_mean(inputs, flip,
                      [&](const NamedTensors& seen) {
                        return checkpoint.model->forward(network, seen).at("logits");
                      })
      .flatten();
}

/// Runs one network after another on all images, then lets the networks vote.
class EnsemblePrediction {
 public:
  EnsemblePrediction(Ensemble ensemble, Voting voting,
                     std::shared_ptr<const ImagesToPredict> pictures, ImageDatasetOptions transform,
                     EnsembleRequest request, at::Device device, const RequestContext& context)
      : ensemble_(std::move(ensemble)),
        voting_(voting),
        pictures_(std::move(pictures)),
        transform_(std::move(transform)),
        request_(std::move(request)),
        device_(device),
        context_(context),
        images_(pictures_->describe().size) {}

  Json run() {
    const PassProgress progress("predict", std::ssize(ensemble_.members));
    for (std::size_t i = 0; i < ensemble_.members.size(); ++i) {
      ask(i);
      context_.progress(progress.after(static_cast<std::int64_t>(i) + 1, images_));
    }
    for (std::int64_t index = 0; index < images_; ++index) give(index);
    Json answer = {{"images", images_}, {"failed", failed_}};
    if (!request_.explain.empty()) answer["pictures"] = draw_reasons();
    return answer;
  }

 private:
  const Checkpoint& checkpoint(std::size_t member) const {
    return *ensemble_.members[member].checkpoint;
  }

  /// Calls `use(network, batch)` for every batch of the images.
  void go_through(std::size_t member,
                  const std::function<void(const PreparedNetwork&, const Batch&)>& use) const {
    const Checkpoint& own = checkpoint(member);
    const auto opened = own.opened();
    if (!request_.explain.empty()) check_feature_maps(*opened, own);
    const auto say = [&](std::string_view line) {
      if (member == 0) context_.say(line);
    };
    const PreparedNetwork network(
        *opened, choose_numerics(own.numerics, *opened, own.model_stage, device_, say), device_);
    Loader loader(pictures_, SampleOrder::sequential(images_), request_.batch_size, /*epoch=*/0);
    while (const std::optional<Batch> batch = loader.next()) {
      if (context_.canceled()) throw runner::Canceled{};
      use(network, *batch);
    }
  }

  void ask(std::size_t member) {
    go_through(member, [&](const PreparedNetwork& network, const Batch& batch) {
      at::Tensor logits;
      {
        const Batch placed = network.placed(batch);
        const ScopedInference inference(network);
        logits =
            pair_logits_of(checkpoint(member), request_.flip, network.module(), placed.tensors())
                .to(at::kCPU, at::kDouble)
                .contiguous();
      }
      for (std::int64_t row = 0; row < batch.units(); ++row) {
        const std::int64_t index = batch.indices[static_cast<std::size_t>(row)];
        const double logit = logits.const_data_ptr<double>()[row];
        if (!std::isfinite(logit)) {
          throw StageError(ErrorCode::kStageFailed,
                           "the network of '" + ensemble_.name_of(ensemble_.members[member]) +
                               "' returned a logit that is not a finite number for '" +
                               pictures_->sample_name(index) + "'")
              .with_help("the weights are damaged, or training diverged: check train/loss");
        }
        auto& all = logits_[index];
        all.resize(ensemble_.members.size());
        all[member] = ensemble_.members[member].is_turned ? -logit : logit;
      }
    });
  }

  void give(std::int64_t index) {
    const std::string file = pictures_->sample_name(index);
    const auto found = logits_.find(index);
    if (found == logits_.end()) {
      const auto unreadable = pictures_->take_unreadable(index);
      if (!unreadable) return;
      ++failed_;
      context_.item({{"file", file},
                     {"code", runner::name(unreadable->code)},
                     {"message", unreadable->message}});
      return;
    }
    std::vector<double> p;
    for (const double logit : found->second) p.push_back(pair_probability(logit, voting_.options));
    const auto classes = std::ssize(ensemble_.classes);
    const std::vector<VotingPair> pairs = ensemble_.pairs();
    const Vote decided = vote(voting_.decides, pairs, p, classes, voting_.options);
    const Vote coupled = vote(VoteRule::kPairwiseCoupling, pairs, p, classes, voting_.options);
    const bool abstains = voting_.abstain_below && decided.margin < *voting_.abstain_below;
    winners_[index] = decided.winner;
    Json votes = Json::object(), by_pair = Json::object();
    for (std::size_t label = 0; label < ensemble_.classes.size(); ++label)
      votes[ensemble_.classes[label]] = decided.scores[label];
    for (std::size_t i = 0; i < p.size(); ++i)
      by_pair[ensemble_.name_of(ensemble_.members[i])] = p[i];
    context_.item({{"file", file},
                   {"prediction", abstains ? Json(nullptr) : Json(name_of(decided.winner))},
                   {"tied", decided.is_tied},
                   {"margin", decided.margin},
                   {"votes", std::move(votes)},
                   {"pairs", std::move(by_pair)},
                   {"classes", likely(coupled.scores)}});
  }

  Json likely(const std::vector<double>& probabilities) const {
    std::vector<std::size_t> order;
    for (std::size_t label = 0; label < probabilities.size(); ++label) order.push_back(label);
    std::ranges::stable_sort(order, std::greater{},
                             [&](std::size_t label) { return probabilities[label]; });
    order.resize(std::min(order.size(), static_cast<std::size_t>(request_.top)));
    Json classes = Json::array();
    for (const std::size_t label : order)
      classes.push_back(
          {{"class", ensemble_.classes[label]}, {"probability", probabilities[label]}});
    return classes;
  }

  const std::string& name_of(std::int64_t label) const {
    return ensemble_.classes[static_cast<std::size_t>(label)];
  }

  /// Draws, for every image, the activation maps of the networks that voted for the winning class.
  /// Returns the number of pictures.
  std::int64_t draw_reasons() {
    ActivationFolder maps(request_.explain, transform_);
    for (std::size_t i = 0; i < ensemble_.members.size(); ++i) {
      const EnsembleMember& member = ensemble_.members[i];
      const auto decides = [&](std::int64_t index) {
        const auto winner = winners_.find(index);
        if (winner == winners_.end()) return false;
        const bool says_second =
            pair_probability(logits_.at(index)[i], voting_.options) > voting_.options.threshold;
        return winner->second == (says_second ? member.second : member.first);
      };
      bool is_asked = false;
      for (const auto& [index, winner] : winners_) is_asked |= decides(index);
      if (!is_asked) continue;
      go_through(i, [&](const PreparedNetwork& network, const Batch& batch) {
        for (std::int64_t row = 0; row < batch.units(); ++row) {
          const std::int64_t index = batch.indices[static_cast<std::size_t>(row)];
          if (decides(index)) draw(network, batch, row, i, maps);
        }
      });
    }
    if (const std::string reduced = maps.remark(); !reduced.empty()) context_.say(reduced);
    return maps.written();
  }

  void draw(const PreparedNetwork& network, const Batch& batch, std::int64_t row,
            std::size_t member, ActivationFolder& maps) const {
    const std::int64_t index = batch.indices[static_cast<std::size_t>(row)];
    const EnsembleMember& own = ensemble_.members[member];
    const bool for_second = winners_.at(index) == own.second;
    const double sign = for_second != own.is_turned ? 1 : -1;
    const at::Tensor pixels = network.placed(batch.part(row, row + 1)).tensors().at("image");
    const at::Tensor activation =
        class_activation(network.module(), checkpoint(member), pixels, /*logit=*/0, sign);
    maps.write(pictures_->sample_name(index), index, ensemble_.name_of(own), activation);
  }

  const Ensemble ensemble_;
  const Voting voting_;
  const std::shared_ptr<const ImagesToPredict> pictures_;
  const ImageDatasetOptions transform_;
  const EnsembleRequest request_;
  const at::Device device_;
  const RequestContext& context_;
  const std::int64_t images_;
  std::map<std::int64_t, std::vector<double>>
      logits_;  // per image: the logits of the members' second classes
  std::map<std::int64_t, std::int64_t> winners_;  // by image
  std::int64_t failed_ = 0;
};

Voting voting_of(const runner::Graph& graph, const std::string& id) {
  const auto node = std::ranges::find(graph.nodes, id, &runner::Node::id);
  if (node == graph.nodes.end())
    throw std::runtime_error("predict: the graph has no node '" + id + "'");
  runner::ConfigReader reader(node->options, node->pointer);
  return read_voting(reader);
}

/// Returns the GPU memory that the first network needs; networks of the same model need the same
/// amount.
std::int64_t planned_bytes_of(const Checkpoint& checkpoint, const ImagesToPredict& pictures,
                              const EnsembleRequest& request, const std::string& device_model) {
  return planned_bytes(checkpoint, pictures, request.batch_size, device_model,
                       [&](torch::nn::Module& network, const NamedTensors& inputs) {
                         return pair_logits_of(checkpoint, request.flip, network, inputs);
                       });
}

}  // namespace

runner::Result<Json> answer_predict_ensemble(const Json& request, const RequestContext& context) {
  const auto fields =
      request_fields(request, {"graph", "node", "checkpoints", "paths", "top", "batch_size",
                               "skip_corrupt", "flip", "plan_for", "explain"});
  const runner::Graph graph = runner::graph_from_json(fields.object("graph"));
  const runner::CheckpointSources trained =
      runner::checkpoint_sources_from_json(fields.object("checkpoints"));
  EnsembleRequest asked{.top = fields.integer("top"),
                        .batch_size = fields.integer("batch_size"),
                        .skip_corrupt = fields.flag("skip_corrupt"),
                        .explain = request.contains("explain") ? fields.text("explain") : ""};
  if (asked.top < 1 || asked.batch_size < 1)
    throw std::runtime_error("predict: top and batch_size must be at least 1");
  const std::string flip_word = request.contains("flip") ? fields.text("flip") : "none";
  const auto* const flip =
      std::ranges::find(kTestTimeFlips, flip_word, [](const auto& item) { return item.first; });
  if (flip == kTestTimeFlips.end()) throw std::runtime_error("predict: an unknown flip");
  asked.flip = flip->second;

  auto found = list_images(fields.texts("paths"));
  if (!found) return found.errors();
  const std::string plan_for = request.contains("plan_for") ? fields.text("plan_for") : "";
  if (const std::string not_taken = found->not_taken.text(); plan_for.empty() && !not_taken.empty())
    context.say(not_taken);
  const auto device = plan_for.empty() ? choose_device(graph.device, find_gpus())
                                       : runner::Result<c10::Device>(c10::Device(c10::kCUDA, 0));
  if (!device) return device.errors();
  if (auto errors = refused_user_variables(use_threads(graph.threads), context.say);
      !errors.empty())
    return errors;
  const std::string node = fields.text("node");
  const auto networks = networks_wired_to(graph, node, trained, device->str(),
                                          /*are_outlines=*/!plan_for.empty(), context);
  if (!networks) return networks.errors();
  if (networks->empty()) return Json{{"needed", 0}};
  std::vector<std::shared_ptr<const Checkpoint>> checkpoints;
  for (const NodeNetwork& network : *networks) checkpoints.push_back(network.checkpoint);
  Ensemble ensemble = make_ensemble(checkpoints, classes_of(*networks));
  const Voting voting = voting_of(graph, node);
  const EnsembleMember* unknown = ensemble.without_accuracy();
  if (plan_for.empty() && unknown && needs_accuracies(voting.decides)) {
    throw StageError(ErrorCode::kOptionConflict,
                     "the accuracy of '" + ensemble.name_of(*unknown) +
                         "' on validation data was not measured, but the ensemble's rule needs it")
        .with_help("train with validation data, or choose another rule");
  }
  ImageDatasetOptions transform = transform_of(*checkpoints.front());
  transform.loader.workers =
      std::clamp<std::int64_t>(std::thread::hardware_concurrency() / 2, 1, 8);
  auto pictures = std::make_shared<const ImagesToPredict>(std::move(found->files), transform,
                                                          asked.skip_corrupt);
  if (!plan_for.empty())
    return Json{{"needed", planned_bytes_of(*checkpoints.front(), *pictures, asked, plan_for)}};
  return EnsemblePrediction(std::move(ensemble), voting, std::move(pictures), transform, asked,
                            *device, context)
      .run();
}

}  // namespace stages
