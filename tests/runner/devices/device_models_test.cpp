#include "runner/devices/device_models.h"

#include <algorithm>
#include <set>
#include <string>

#include <gmock/gmock.h>

namespace runner {
namespace {

std::string found(std::string_view name) {
  const auto model = device_model(name);
  if (model) return std::string((*model)->name);
  const Diagnostic& error = model.errors().front();
  return error.message + " | " + error.help;
}

TEST(DeviceModels, EachIsSoundAndHasASource) {
  std::set<std::string_view> names;
  for (const DeviceModel& model : device_models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_TRUE(model.name.starts_with("NVIDIA ")) << model.name;
    EXPECT_GT(model.memory, std::int64_t{4} << 30) << model.name;
    EXPECT_LT(model.memory, std::int64_t{300} << 30) << model.name;
    EXPECT_TRUE(model.source.starts_with("https://")) << model.name;
    EXPECT_GE(model.capability, 75) << model.name;
  }
  EXPECT_GE(names.size(), 25u);
}

TEST(DeviceModels, CapabilityAndArchitectureAgree) {
  for (const DeviceModel& model : device_models()) {
    const std::string_view expected = model.capability == 75   ? "Turing"
                                      : model.capability < 89  ? "Ampere"
                                      : model.capability == 89 ? "Ada Lovelace"
                                      : model.capability == 90 ? "Hopper"
                                                               : "Blackwell";
    EXPECT_EQ(model.architecture, expected) << model.name;
  }
}

TEST(DeviceModels, EachIsFoundByItsName) {
  for (const DeviceModel& model : device_models()) EXPECT_EQ(found(model.name), model.name);
}

TEST(DeviceModels, EachIsFoundByItsShortName) {
  for (const DeviceModel& model : device_models()) {
    EXPECT_EQ(found(short_name(model)), model.name);
    EXPECT_EQ(short_name(model).find(' '), std::string::npos);
  }
  EXPECT_EQ(short_name(device_models()[1]), "RTX-2080-Ti");
}

TEST(DeviceModel, AWordThatNoOtherHasIsEnough) {
  EXPECT_EQ(found("L4"), "NVIDIA L4");
  EXPECT_EQ(found("l40s"), "NVIDIA L40S");
  EXPECT_EQ(found("4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found("rtx 4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found("RTX4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found("A100-80GB"), "NVIDIA A100 80GB");
  EXPECT_EQ(found("A100_40gb"), "NVIDIA A100 40GB");
}

TEST(DeviceModel, AWordOfSeveralAsksWhich) {
  EXPECT_EQ(found("A100"), "'A100' names several GPUs | say which: NVIDIA A100 40GB, NVIDIA A100 80GB");
}

TEST(DeviceModel, AnUnknownOneSuggestsTheNearest) {
  EXPECT_EQ(found("NVIDIA L5"), "no GPU named 'NVIDIA L5' is known | did you mean 'NVIDIA L4'?");
  EXPECT_EQ(found("RTX 4091"), "no GPU named 'RTX 4091' is known | did you mean 'NVIDIA GeForce RTX 4090'?");
}

TEST(DeviceModel, AVariantSuggestsItsModel) {
  const auto suggests = [](const char* name, const std::string& model) {
    EXPECT_THAT(found(name), testing::EndsWith(" is known | did you mean '" + model + "'?")) << name;
  };
  suggests("RTX 4060 Laptop", "NVIDIA GeForce RTX 4060");
  suggests("NVIDIA GeForce RTX 4060 Laptop GPU", "NVIDIA GeForce RTX 4060");
  suggests("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB");
  suggests("RTX 4080 SUPER", "NVIDIA GeForce RTX 4080");
  suggests("Tesla T4", "NVIDIA T4");
  for (const DeviceModel& model : device_models())
    suggests((std::string(model.name) + " Variant").c_str(), std::string(model.name));
}

TEST(DeviceModel, OneLikeNoneListsThemAll) {
  for (const char* name : {"list", "", "  ", "Radeon Instinct MI300X accelerator"}) {
    const std::string answer = found(name);
    for (const DeviceModel& model : device_models()) EXPECT_THAT(answer, testing::HasSubstr(model.name));
  }
}

}  // namespace
}  // namespace runner
