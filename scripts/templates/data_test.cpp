#include <gtest/gtest.h>
#include <torch/torch.h>

#include "runner/stage/config_reader.h"
#include "runner/stage/stage.h"
#include "stages/artifact/dataset.h"
#include "stages/stages.h"
#include "tests/support/recording_context.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

/// The part `port` that a stage with these options puts out.
std::shared_ptr<const Dataset> novel_part(const std::string& port, const std::string& options = "{}") {
  const runner::Value value = stage_options("data/novel", options);
  runner::ConfigReader reader(value, "/data");
  const auto stage = kDataNovel.create(reader);
  if (!stage) throw std::logic_error(stage.errors()[0].message);
  RecordingContext context;
  return runner::Inputs({{port, {(*stage)->run(runner::Inputs({}), context).at(port)}}}).get<Dataset>(port);
}

TEST(DataNovel, UnknownOptionIsNotIgnored) {
  const runner::Value value = stage_options("data/novel", R"({"sise": 3})");
  runner::ConfigReader reader(value, "/data");
  const auto stage = kDataNovel.create(reader);
  ASSERT_FALSE(stage);
  EXPECT_EQ(stage.errors()[0].pointer, "/data/sise");
}

TEST(DataNovel, SamplesAreAsDescribed) {
  const auto data = novel_part("train", R"({"size": 10, "classes": 3})");
  const DatasetDescription description = data->describe();
  EXPECT_EQ(description.size, 10);
  EXPECT_EQ(description.classes.size(), 3);
  for (std::int64_t i = 0; i < description.size; ++i) {
    const NamedTensors sample = data->sample(0, i).value();
    for (const TensorSpec& spec : description.tensors) {
      EXPECT_EQ(sample.at(spec.name).sizes(), spec.shape);
      EXPECT_EQ(sample.at(spec.name).dtype(), spec.dtype);
    }
    EXPECT_EQ(sample.at("label").item<std::int64_t>(), i % 3);
  }
}

TEST(DataNovel, SampleIsAFunctionOfPartAndIndex) {
  const auto image = [](const auto& data, std::int64_t index) { return data->sample(0, index)->at("image"); };
  EXPECT_TRUE(image(novel_part("train"), 5).equal(image(novel_part("train"), 5)));
  EXPECT_FALSE(image(novel_part("train"), 5).equal(image(novel_part("train"), 9)));
  EXPECT_FALSE(image(novel_part("train"), 5).equal(image(novel_part("test"), 5)));
}

}  // namespace
}  // namespace stages
