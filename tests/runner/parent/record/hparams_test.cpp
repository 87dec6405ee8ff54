#include "runner/parent/record/hparams.h"

#include <bit>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "tests/support/event_file_reader.h"

namespace runner {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::Pair;

/// The member `field` of the HParamsPluginData in a value.
ProtobufFields content_of(const ProtobufMessage& value, std::uint64_t field) {
  return ProtobufFields(value.bytes()).message(9).message(1).message(2).message(field);
}

TEST(Hparams, AreTheOverriddenOptions) {
  const Json recipe = {{"schema", 1},
                       {"data", {{"root", "photos"}, {"mean", {0.5, 0.25}}}},
                       {"model", {{"kind", "model.tiny"}}},
                       {"train", {{"epochs", 3}, {"ema", nullptr}}},
                       {"run", {{"dir", "here"}}}};
  const Json from_override = {{"from", "override"}, {"override", "x"}};
  const Json origins = {{"/data/root", {{"from", "file"}}}, {"/data/mean/0", from_override},
                        {"/data/mean/1", from_override},    {"/train/epochs", from_override},
                        {"/run/dir", from_override},        {"/gone", from_override}};
  EXPECT_THAT(overridden_options(recipe, origins,
                                 {"epochs=3", "model=tiny", "+data={root: x}", "~train.ema"}),
              ElementsAre(Pair("data.mean", "[0.5,0.25]"), Pair("model", "tiny"),
                          Pair("train.epochs", "3")));
  EXPECT_THAT(overridden_options(Json(), Json(), {"model=tiny"}), testing::IsEmpty());
}

TEST(Hparams, ValuesKeepTheirTypes) {
  const ProtobufFields start =
      content_of(session_start_value({{"flag", "true"}, {"name", "1e"}, {"rate", "1e-3"}}, 7), 3);
  std::map<std::string, ProtobufFields> values;
  for (const std::string& entry : start.all(1))
    values.emplace(ProtobufFields(entry).at(1), ProtobufFields(entry).message(2));
  EXPECT_EQ(values.at("flag").number(4), 1u);
  EXPECT_EQ(values.at("name").at(3), "1e");
  EXPECT_EQ(std::bit_cast<double>(values.at("rate").number(2)), 1e-3);
  EXPECT_EQ(std::bit_cast<double>(start.number(5)), 7);
}

TEST(Hparams, EndRecordsWhetherTheRunFinished) {
  EXPECT_EQ(content_of(session_end_value(true, 9), 4).number(1), 1u);
  EXPECT_EQ(content_of(session_end_value(false, 9), 4).number(1), 2u);
}

TEST(Hparams, ExperimentListsTheSweptOptions) {
  const ProtobufFields experiment =
      content_of(experiment_value({.name = "classify",
                                   .options = {{"seed", {"1", "2"}}, {"model", {"tiny", "lora"}}},
                                   .metrics = {{"evaluate", "evaluate/top1"}}},
                                  7),
                 2);
  ASSERT_EQ(experiment.all(4).size(), 2u);
  const ProtobufFields seed(experiment.all(4)[0]), model(experiment.all(4)[1]);
  EXPECT_EQ(seed.number(4), 3u) << "DATA_TYPE_FLOAT64";
  EXPECT_EQ(std::bit_cast<double>(seed.message(6).number(2)), 2);
  EXPECT_EQ(model.number(4), 1u) << "DATA_TYPE_STRING";
  EXPECT_EQ(model.message(5).all(1).size(), 2u);
  const ProtobufFields metric = experiment.message(5).message(1);
  EXPECT_EQ(metric.at(1), "evaluate");
  EXPECT_EQ(metric.at(2), "evaluate/top1");
}

}  // namespace
}  // namespace runner
