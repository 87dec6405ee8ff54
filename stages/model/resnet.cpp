#include "stages/model/resnet.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>

#include <torch/nn/modules/container/modulelist.h>
#include <torch/types.h>

#include "runner/shared/text/join.h"
#include "stages/numerics/sharded_build.h"
#include "stages/tensor/tensor_memory.h"
#include "stages/weights/weights.h"

namespace stages {
namespace {

constexpr std::size_t kStages = 4;

/// Returns the number of blocks in each stage.
std::array<std::int64_t, kStages> blocks_of_depth(std::int64_t depth) {
  if (depth == 12) return {2, 1, 1, 1};
  if (depth == 18) return {2, 2, 2, 2};
  if (depth == 34) return {3, 4, 6, 3};
  throw std::logic_error("no ResNet with depth " + std::to_string(depth));
}

/// Computes adaptive average pooling. If all bins have the same size, it is a plain mean over each
/// bin, because GPUs sum the gradient of a mean in a fixed order.
at::Tensor pooled_to(const at::Tensor& x, std::int64_t size) {
  if (x.size(2) == size && x.size(3) == size) return x;
  if (x.size(2) % size != 0 || x.size(3) % size != 0)
    return torch::adaptive_avg_pool2d(x, {size, size});
  return x.reshape({x.size(0), x.size(1), size, x.size(2) / size, size, x.size(3) / size})
      .mean({3, 5});
}

std::shared_ptr<Convolution> square_convolution(std::int64_t in, std::int64_t out,
                                                std::int64_t size, std::int64_t stride,
                                                std::int64_t padding,
                                                const at::TensorOptions& options) {
  return std::make_shared<Convolution>(
      ConvolutionSizes{.in = in, .out = out, .size = size, .stride = stride, .padding = padding},
      options);
}

}  // namespace

BasicBlock::BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride,
                       BatchNormStatistics statistics, double drop_path,
                       const at::TensorOptions& options)
    : conv1_(register_module("conv1", square_convolution(in, out, 3, stride, 1, options))),
      conv2_(register_module("conv2", square_convolution(out, out, 3, 1, 1, options))),
      bn1_(register_module("bn1", std::make_shared<BatchNorm>(out, statistics, options))),
      bn2_(register_module("bn2", std::make_shared<BatchNorm>(out, statistics, options))) {
  drop_path_ = register_drop_path(*this, drop_path);
  if (in == out && stride == 1) return;
  const auto list = register_module("downsample", std::make_shared<torch::nn::ModuleListImpl>());
  shortcut_ = square_convolution(in, out, 1, stride, 0, options);
  shortcut_norm_ = std::make_shared<BatchNorm>(out, statistics, options);
  list->push_back(shortcut_);
  list->push_back(shortcut_norm_);
}

at::Tensor BasicBlock::compute(const at::Tensor& input) const {
  const OwnPrecision own(*this);
  const at::Tensor x = own(input);
  at::Tensor y = bn2_->forward(conv2_->forward(bn1_->forward_relu(conv1_->forward(x))));
  if (drop_path_) y = drop_path_->forward(y);
  const at::Tensor added = shortcut_ ? shortcut_norm_->forward(shortcut_->forward(x)) : x;
  return (y.scalar_type() == added.scalar_type() ? y.add_(added) : y + added).relu_();
}

ResNet::ResNet(const ResNetOptions& network, const at::TensorOptions& options) : options_(network) {
  const bool is_feti = network.stem == ResNetStem::kFeti;
  conv1_ = register_module(
      "conv1", square_convolution(3, network.width, is_feti ? 5 : 7, 2, is_feti ? 1 : 3, options));
  bn1_ = register_module("bn1",
                         std::make_shared<BatchNorm>(network.width, network.statistics, options));
  const auto blocks = blocks_of_depth(network.depth);
  const std::int64_t last = std::reduce(blocks.begin(), blocks.end()) - 1;
  std::int64_t in = network.width;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    const std::int64_t out = network.width << stage;
    const auto list = register_module("layer" + std::to_string(stage + 1),
                                      std::make_shared<torch::nn::ModuleListImpl>());
    for (std::int64_t block = 0; block < blocks[stage]; ++block) {
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      const double depth = static_cast<double>(blocks_.size()) / static_cast<double>(last);
      blocks_.push_back(make_block<BasicBlock>(in, out, stride, network.statistics,
                                               depth * network.drop_path, options));
      list->push_back(blocks_.back());
      in = out;
    }
  }
}

at::Tensor ResNet::forward(const at::Tensor& images) const {
  const OwnPrecision own(*this);
  at::Tensor x = bn1_->forward_relu(conv1_->forward(own(images)));
  if (options_.stem == ResNetStem::kImageNet)
    x = torch::max_pool2d(x, /*kernel_size=*/3, /*stride=*/2, /*padding=*/1);
  for (const auto& block : blocks_) x = block->forward(x);
  return options_.stem == ResNetStem::kFeti ? pooled_to(x, options_.pooled_size) : x;
}

std::optional<MapShape> ResNet::shape(std::int64_t height, std::int64_t width) const {
  const std::int64_t channels = options_.width << (kStages - 1);
  const auto halved = [](std::int64_t size) { return (size + 1) / 2; };
  const auto in_stages = [&](std::int64_t size) { return halved(halved(halved(size))); };
  if (options_.stem == ResNetStem::kFeti) {
    const std::int64_t pooled = options_.pooled_size;
    const auto last = [&](std::int64_t size) {
      return size < 3 ? 0 : in_stages((size - 3) / 2 + 1);
    };
    if (last(height) < pooled || last(width) < pooled) return std::nullopt;
    return MapShape{channels, pooled, pooled};
  }
  constexpr std::int64_t kPixelsOfLastFeature = 32;
  if (height < kPixelsOfLastFeature || width < kPixelsOfLastFeature) return std::nullopt;
  const auto last = [&](std::int64_t size) { return in_stages(halved(halved(size))); };
  return MapShape{channels, last(height), last(width)};
}

namespace {

constexpr std::string_view kFirstWeight = "conv1.weight", kFirstOfBlocks = "layer1.0.conv1.weight",
                           kBatchCount = ".num_batches_tracked", kHeadOfClasses = "fc.";
constexpr std::size_t kNamesShown = 6;

/// Returns the prefix before torchvision's names; also empty if there are no such names.
std::string prefix_of(const NamedTensors& saved) {
  for (const auto& [name, tensor] : saved) {
    if (!name.ends_with(kFirstOfBlocks)) continue;
    const std::string prefix = name.substr(0, name.size() - kFirstOfBlocks.size());
    if (saved.contains(prefix + std::string(kFirstWeight))) return prefix;
  }
  return "";
}

std::string sizes_text(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.sizes();
  return text.str();
}

/// Returns "layer1.2" for "layer1.2.conv1.weight", and "conv1" for "conv1.weight".
std::string block_of(const std::string& name) {
  const std::size_t first = name.find('.');
  return name.substr(0, name.starts_with("layer") ? name.find('.', first + 1) : first);
}

}  // namespace

ResNetPlaces::ResNetPlaces(ResNet& network, const NamedTensors& saved) {
  report_.prefix = prefix_of(saved);
  std::set<std::string> ours;
  const auto place = [&](const std::string& name, const at::Tensor& weight) {
    const std::string theirs = report_.prefix + name;
    ours.insert(theirs);
    if (!saved.contains(theirs)) {
      if (!name.ends_with(kBatchCount)) report_.missing.push_back(name);
      return;
    }
    const at::Tensor& tensor = saved.at(theirs);
    if (tensor.sizes() != weight.sizes()) {
      report_.wrong_shape.push_back(name + " " + sizes_text(tensor) + " for " + sizes_text(weight));
      return;
    }
    refuse_integers(name, tensor, weight);
    places_.emplace(theirs, weight);
  };
  for (const auto& item : network.named_parameters()) place(item.key(), item.value());
  for (const auto& item : network.named_buffers()) place(item.key(), item.value());
  for (const auto& [name, tensor] : saved) {
    if (ours.contains(name)) continue;
    const bool is_head = name.starts_with(report_.prefix + std::string(kHeadOfClasses));
    (is_head ? report_.left_out : report_.unused).push_back(name);
  }
  if (report_.fits()) report_.taken = static_cast<std::int64_t>(places_.size());
}

WeightSink ResNetPlaces::sink() {
  std::erase_if(places_, [](const auto& place) { return !has_memory(place.second); });
  return {.wants = [this](const std::string& name) { return places_.contains(name); },
          .take =
              [this](const WeightPiece& piece) {
                const at::Tensor all = places_.at(piece.tensor).detach().view({-1});
                all.narrow(0, piece.begin, piece.numbers.numel()).copy_(piece.numbers);
              }};
}

std::string ResNetWeightsReport::text(std::int64_t depth) const {
  std::string text = std::to_string(taken) + " tensors of ResNet-" + std::to_string(depth);
  if (!prefix.empty()) text += ", under '" + prefix + "'";
  if (!left_out.empty()) text += "; left out: " + runner::listed(left_out, kNamesShown);
  if (!unused.empty()) text += "; unmatched: " + runner::listed(unused, kNamesShown);
  return text;
}

std::string ResNetWeightsReport::misfits() const {
  std::string text;
  if (!missing.empty()) {
    std::vector<std::string> parts;
    for (const std::string& name : missing) {
      const std::string part = block_of(name);
      if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
    }
    constexpr std::size_t kPartsShown = 16;
    text = std::to_string(missing.size()) + " tensors are missing from " +
           runner::listed(parts, kPartsShown);
  }
  if (!wrong_shape.empty()) {
    text += (text.empty() ? "" : "; ") + std::to_string(wrong_shape.size()) +
            " have a different shape: " + runner::listed(wrong_shape, kNamesShown);
  }
  return text;
}

}  // namespace stages
