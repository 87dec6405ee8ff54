#include "stages/data/augment_policy.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <span>

#include "stages/random/distributions.h"

namespace stages {
namespace {

/// The range of an operation's strength: from `low` to `high`, in either direction if `is_signed`.
/// An operation without a range has no strength.
struct Strength {
  Operation operation;
  float low = 0, high = 0;
  bool is_signed = false;
  bool has_range() const { return low != high; }
};

/// A policy's operation space, in torchvision's order.
struct Space {
  float shear, right, down, rotation, color;
  float most_bits, fewest_bits;
};

std::vector<Strength> strengths(const Space& space) {
  return {{Operation::kShearX, 0, space.shear, true},
          {Operation::kShearY, 0, space.shear, true},
          {Operation::kTranslateX, 0, space.right, true},
          {Operation::kTranslateY, 0, space.down, true},
          {Operation::kRotate, 0, space.rotation, true},
          {Operation::kBrightness, 0, space.color, true},
          {Operation::kColor, 0, space.color, true},
          {Operation::kContrast, 0, space.color, true},
          {Operation::kSharpness, 0, space.color, true},
          {Operation::kPosterize, space.most_bits, space.fewest_bits},
          {Operation::kSolarize, 255, 0},
          {Operation::kAutoContrast},
          {Operation::kEqualize},
          {Operation::kIdentity}};
}

bool is_color(Operation operation) {
  return operation == Operation::kBrightness || operation == Operation::kColor ||
         operation == Operation::kContrast || operation == Operation::kSharpness;
}

double magnitude_at(const Strength& of, std::int64_t bin, std::int64_t bins) {
  if (!of.has_range()) return 0;
  if (of.operation != Operation::kPosterize) return magnitude_of_bin(of.low, of.high, bin, bins);
  const float per_bit = static_cast<float>(bins - 1) / (of.low - of.high);
  return of.low - std::nearbyint(static_cast<float>(bin) / per_bit);
}

/// Draws from one policy.
class PolicyDraw {
 public:
  PolicyDraw(const AugmentPolicy& policy, int width, int height, Random& random)
      : policy_(policy), width_(width), height_(height), random_(random) {}

  DrawnPolicy draw() {
    switch (policy_.kind) {
      case AugmentPolicy::Kind::kRandAugment:
        return {{{rand_augment()}}};
      case AugmentPolicy::Kind::kTrivialAugmentWide:
        return {{{trivial_augment()}}};
      case AugmentPolicy::Kind::kAutoAugment:
        return {{{auto_augment()}}};
      case AugmentPolicy::Kind::kAugMix:
        return aug_mix();
      case AugmentPolicy::Kind::kThreeAugment:
        return {{{three_augment()}}};
    }
    return {};
  }

 private:
  static constexpr std::int64_t kAutoAugmentBins = 10, kAugMixBins = 10;

  std::vector<Strength> usual_space() const {
    return strengths({.shear = 0.3F,
                      .right = static_cast<float>(150.0 / 331.0 * width_),
                      .down = static_cast<float>(150.0 / 331.0 * height_),
                      .rotation = 30,
                      .color = 0.9F,
                      .most_bits = 8,
                      .fewest_bits = 4});
  }

  const Strength& any_of(const std::vector<Strength>& space) {
    return space[static_cast<std::size_t>(random_.below(std::ssize(space)))];
  }
  OperationAt at(const Strength& of, std::int64_t bin, std::int64_t bins) {
    const double magnitude = magnitude_at(of, bin, bins);
    return {of.operation, of.is_signed && random_.below(2) == 1 ? -magnitude : magnitude};
  }

  std::vector<OperationAt> rand_augment() {
    const std::vector<Strength> space = usual_space();
    std::vector<OperationAt> steps;
    for (std::int64_t i = 0; i < policy_.num_ops; ++i)
      steps.push_back(at(any_of(space), policy_.magnitude, policy_.num_magnitude_bins));
    return steps;
  }

  std::vector<OperationAt> trivial_augment() {
    const std::vector<Strength> space = strengths({.shear = 0.99F,
                                                   .right = 32,
                                                   .down = 32,
                                                   .rotation = 135,
                                                   .color = 0.99F,
                                                   .most_bits = 8,
                                                   .fewest_bits = 2});
    const std::int64_t bins = policy_.num_magnitude_bins;
    const Strength& of = any_of(space);
    return {at(of, random_.below(bins), bins)};
  }

  std::vector<OperationAt> auto_augment();

  DrawnPolicy aug_mix() {
    std::vector<Strength> space = strengths({.shear = 0.3F,
                                             .right = static_cast<float>(width_ / 3),
                                             .down = static_cast<float>(height_ / 3),
                                             .rotation = 30,
                                             .color = 0.9F,
                                             .most_bits = 4,
                                             .fewest_bits = 0});
    space.pop_back();  // removes kIdentity, which AugMix does not use
    if (!policy_.all_ops)
      std::erase_if(space, [](const Strength& of) { return is_color(of.operation); });
    const std::vector<double> halves = shares(2), widths = shares(policy_.mixture_width);
    DrawnPolicy drawn{.share_of_image = static_cast<float>(halves[0])};
    for (const double width : widths) {
      OperationChain& chain = drawn.chains.emplace_back();
      chain.share = static_cast<float>(width) * static_cast<float>(halves[1]);
      const std::int64_t depth = policy_.chain_depth ? *policy_.chain_depth : random_.below(3) + 1;
      for (std::int64_t i = 0; i < depth; ++i) {
        const Strength& of = any_of(space);
        chain.steps.push_back(at(of, random_.below(policy_.severity), kAugMixBins));
      }
    }
    return drawn;
  }

  /// Draws shares from the symmetric Dirichlet distribution with `count` parameters.
  std::vector<double> shares(std::int64_t count) {
    const auto uniform = [this] { return random_.uniform() + 0x1.0p-54; };
    std::vector<double> drawn;
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i)
      sum += drawn.emplace_back(draw_gamma(uniform, policy_.alpha));
    for (double& one : drawn)
      one = sum > 0 ? one / sum : 1.0 / static_cast<double>(count);  // all underflowed to 0
    return drawn;
  }

  std::vector<OperationAt> three_augment() {
    const double radius = random_.uniform(0.1, 2);
    switch (random_.below(3)) {
      case 0:
        return {{Operation::kGrayscale}};
      case 1:
        return {{Operation::kSolarize, 128}};
      default:
        return {{Operation::kGaussianBlur, radius}};
    }
  }

  const AugmentPolicy& policy_;
  const double width_, height_;
  Random& random_;
};

/// One operation of a pair: its probability, and its magnitude as one of ten bins.
struct Chance {
  Operation operation;
  double probability;
  int bin = 0;
};

using enum Operation;
constexpr std::array<std::array<Chance, 2>, 25> kImageNetPolicy = {{
    {{{kPosterize, 0.4, 8}, {kRotate, 0.6, 9}}}, {{{kSolarize, 0.6, 5}, {kAutoContrast, 0.6}}},
    {{{kEqualize, 0.8}, {kEqualize, 0.6}}},      {{{kPosterize, 0.6, 7}, {kPosterize, 0.6, 6}}},
    {{{kEqualize, 0.4}, {kSolarize, 0.2, 4}}},   {{{kEqualize, 0.4}, {kRotate, 0.8, 8}}},
    {{{kSolarize, 0.6, 3}, {kEqualize, 0.6}}},   {{{kPosterize, 0.8, 5}, {kEqualize, 1.0}}},
    {{{kRotate, 0.2, 3}, {kSolarize, 0.6, 8}}},  {{{kEqualize, 0.6}, {kPosterize, 0.4, 6}}},
    {{{kRotate, 0.8, 8}, {kColor, 0.4, 0}}},     {{{kRotate, 0.4, 9}, {kEqualize, 0.6}}},
    {{{kEqualize, 0.0}, {kEqualize, 0.8}}},      {{{kInvert, 0.6}, {kEqualize, 1.0}}},
    {{{kColor, 0.6, 4}, {kContrast, 1.0, 8}}},   {{{kRotate, 0.8, 8}, {kColor, 1.0, 2}}},
    {{{kColor, 0.8, 8}, {kSolarize, 0.8, 7}}},   {{{kSharpness, 0.4, 7}, {kInvert, 0.6}}},
    {{{kShearX, 0.6, 5}, {kEqualize, 1.0}}},     {{{kColor, 0.4, 0}, {kEqualize, 0.6}}},
    {{{kEqualize, 0.4}, {kSolarize, 0.2, 4}}},   {{{kSolarize, 0.6, 5}, {kAutoContrast, 0.6}}},
    {{{kInvert, 0.6}, {kEqualize, 1.0}}},        {{{kColor, 0.6, 4}, {kContrast, 1.0, 8}}},
    {{{kEqualize, 0.8}, {kEqualize, 0.6}}},
}};

std::vector<OperationAt> PolicyDraw::auto_augment() {
  const auto& pair =
      kImageNetPolicy[static_cast<std::size_t>(random_.below(std::ssize(kImageNetPolicy)))];
  const std::vector<Strength> space = usual_space();
  std::vector<OperationAt> steps;
  for (const Chance& chance : pair) {
    Strength of{chance.operation};
    for (const Strength& one : space) {
      if (one.operation == chance.operation) of = one;
    }
    const OperationAt step = at(of, chance.bin, kAutoAugmentBins);
    if (random_.uniform() < chance.probability) steps.push_back(step);
  }
  return steps;
}

Image after(Image image, std::span<const OperationAt> steps, Neighbors neighbors) {
  for (const OperationAt& step : steps) image = applied(std::move(image), step, neighbors);
  return image;
}

}  // namespace

double magnitude_of_bin(float low, float high, std::int64_t bin, std::int64_t bins) {
  if (bins == 1) return low;
  const float step = (high - low) / static_cast<float>(bins - 1);
  return bin < bins / 2 ? low + step * static_cast<float>(bin)
                        : high - step * static_cast<float>(bins - bin - 1);
}

DrawnPolicy drawn_policy(const AugmentPolicy& policy, int width, int height, Random& random) {
  return PolicyDraw(policy, width, height, random).draw();
}

Image with_policy(const Image& image, const DrawnPolicy& drawn, Neighbors neighbors) {
  if (drawn.chains.size() == 1 && drawn.share_of_image == 0)
    return after(image, drawn.chains.front().steps, neighbors);
  std::vector<float> sums(image.pixels.size());
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = drawn.share_of_image * static_cast<float>(image.pixels[i]);
  for (const OperationChain& chain : drawn.chains) {
    const Image part = after(image, chain.steps, neighbors);
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] += chain.share * static_cast<float>(part.pixels[i]);
  }
  Image mixed = Image::unset(image.width, image.height);
  for (std::size_t i = 0; i < sums.size(); ++i)
    mixed.pixels[i] = static_cast<std::uint8_t>(std::min(sums[i], 255.0F));
  return mixed;
}

}  // namespace stages
