#include "stages/train/gradient_histogram.h"

#include <cmath>
#include <functional>
#include <limits>

#include <gmock/gmock.h>
#include <torch/types.h>

#include "tests/support/tiny_training.h"

namespace stages {
namespace {

using runner::HistogramBucket;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

at::Tensor counts_of(const at::Tensor& tensor) {
  const at::Tensor counts = torch::zeros({kHistogramBuckets}, torch::kLong);
  add_value_counts(tensor, counts);
  return counts;
}

TEST(GradientHistogram, ValuesAreCountedInTheRightBuckets) {
  const double fourth = std::exp2(0.25), smallest = std::exp2(-40);
  EXPECT_THAT(
      buckets_of(counts_of(torch::tensor({1.0F, 1.1F, 1.2F}))),
      ElementsAre(HistogramBucket{1, fourth, 2}, HistogramBucket{fourth, std::exp2(0.5), 1}));
  EXPECT_THAT(buckets_of(counts_of(torch::tensor({0.0F, 1e-20F, -1e-20F}))),
              ElementsAre(HistogramBucket{-smallest, smallest, 3}));
  EXPECT_THAT(buckets_of(counts_of(torch::tensor({-2.5F}))),
              ElementsAre(HistogramBucket{-std::exp2(1.5), -std::exp2(1.25), 1}));
  EXPECT_THAT(buckets_of(counts_of(torch::zeros({0}))), IsEmpty());
}

TEST(GradientHistogram, AdjacentEmptyBucketsAreMerged) {
  const auto buckets = buckets_of(counts_of(torch::tensor({-1.1F, 0.0F, 1.1F})));
  ASSERT_EQ(buckets.size(), 5u);
  for (std::size_t i = 1; i < buckets.size(); ++i) EXPECT_EQ(buckets[i].left, buckets[i - 1].right);
  EXPECT_EQ(buckets[1].count, 0);
  EXPECT_EQ(buckets[2].count, 1);
}

TEST(GradientHistogram, EveryValueIsCountedOnce) {
  const float infinity = std::numeric_limits<float>::infinity();
  const at::Tensor odd = torch::tensor({infinity, -infinity, std::nanf(""), 1e30F});
  EXPECT_EQ(counts_of(odd).sum().item<std::int64_t>(), 4);
  const at::Tensor many = torch::randn({(1 << 18) + 7}), counts = counts_of(many);
  EXPECT_EQ(counts.sum().item<std::int64_t>(), many.numel());
  EXPECT_TRUE(counts.equal(counts_of(many.flip({0})))) << "the order does not matter";
}

TEST(GradientHistogram, ResultDoesNotDependOnLayoutAndType) {
  const at::Tensor image = torch::randn({2, 3, 4, 5}).to(torch::kBFloat16);
  const at::Tensor counts = counts_of(image);
  EXPECT_TRUE(counts.equal(counts_of(image.to(at::MemoryFormat::ChannelsLast))));
  EXPECT_TRUE(counts.equal(counts_of(image.to(torch::kDouble))));
  EXPECT_TRUE(counts_of(image.slice(3, 0, 5, 2)).equal(counts_of(image.slice(3, 0, 5, 2).clone())));
}

TEST(GradientHistogram, DryRunNeedsNoValues) {
  const at::Tensor counts =
      torch::zeros({kHistogramBuckets}, torch::TensorOptions(torch::kLong).device(at::kMeta));
  EXPECT_NO_THROW(
      add_value_counts(torch::empty({3, 4}, counts.options().dtype(torch::kFloat)), counts));
}

/// Returns the steps at which the histograms of `parameter` were recorded.
std::vector<std::int64_t> steps_of(const std::string& parameter, const TinyTraining& training) {
  std::vector<std::int64_t> steps;
  for (const auto& [name, buckets, step] : training.context.histograms)
    if (name == "gradients/" + parameter) steps.push_back(step);
  return steps;
}

TEST(GradientHistogram, RecordingGradientsDoesNotAffectTraining) {
  for (const auto& change : std::vector<std::function<void(TinyTraining&)>>{
           [](TinyTraining&) {}, [](TinyTraining& one) { one.options.gradient_clip_norm = 0.1; },
           [](TinyTraining& one) { one.options.gradient_clip_value = 0.01; },
           [](TinyTraining& one) { one.policy.micro_batch = 3; },
           [](TinyTraining& one) { one.policy.precision = Precision::kBf16; }}) {
    TinyTraining counted, plain;
    for (TinyTraining* one : {&counted, &plain}) change(*one);
    counted.options.log_gradients_every = 3;
    counted.run();
    plain.run();
    EXPECT_TRUE(counted.flat_weights().equal(plain.flat_weights()));
    EXPECT_EQ(counted.context.values("train/loss"), plain.context.values("train/loss"));
    EXPECT_THAT(plain.context.histograms, IsEmpty());
    for (const auto& item : counted.network->named_parameters()) {
      EXPECT_THAT(steps_of(item.key(), counted), ElementsAre(1, 4, 7, 10, 13, 16)) << item.key();
    }
  }
}

TEST(GradientHistogram, RecordsGradientsBeforeClipping) {
  TinyTraining clipped, free;
  for (TinyTraining* one : {&clipped, &free}) {
    one->options.epochs = 1;
    one->options.log_gradients_every = 100;
  }
  clipped.options.gradient_clip_value = 1e-6;
  clipped.run();
  free.run();
  ASSERT_FALSE(free.context.histograms.empty());
  EXPECT_EQ(clipped.context.histograms, free.context.histograms) << "in the first step";
}

TEST(GradientHistogram, FrozenParameterHasNoHistogram) {
  TinyTraining training;
  training.options.log_gradients_every = 1;
  training.options.parameter_groups = {{.name = "still", .match = {"0"}, .frozen = true}};
  training.run();
  EXPECT_THAT(steps_of("0.weight", training), IsEmpty());
  EXPECT_THAT(steps_of("2.weight", training), Not(IsEmpty()));
}

TEST(GradientHistogram, StepsInBackwardRecordNoHistograms) {
  TinyTraining training;
  training.options.log_gradients_every = 1;
  training.policy.optimizer_in_backward = true;
  EXPECT_EQ(training.error(),
            "optimizer_in_backward updates each weight as soon as its own gradient is ready, but "
            "log_gradients_every counts all gradients of a step together");
}

}  // namespace
}  // namespace stages
