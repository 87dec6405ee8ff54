#include "runner/parent/devices/choose_device.h"

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

TEST(DeviceModels, EachIsValidAndHasASource) {
  std::set<std::string_view> names;
  for (const DeviceModel& model : device_models()) {
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_TRUE(model.name.starts_with("NVIDIA ")) << model.name;
    EXPECT_GT(model.memory, std::int64_t{4} << 30) << model.name;
    EXPECT_LT(model.memory, std::int64_t{300} << 30) << model.name;
    EXPECT_TRUE(model.source.starts_with("https://")) << model.name;
    EXPECT_GE(model.capability, 60) << model.name;
  }
  EXPECT_GE(names.size(), 50u);
}

TEST(DeviceModels, CapabilityAndArchitectureAgree) {
  for (const DeviceModel& model : device_models()) {
    const std::string_view expected = model.capability == 60   ? "Pascal"
                                      : model.capability == 70 ? "Volta"
                                      : model.capability == 75 ? "Turing"
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
  EXPECT_EQ(short_name(**device_model("2080 ti")), "RTX-2080-Ti");
}

TEST(DeviceModel, UniqueWordIsEnough) {
  EXPECT_EQ(found("L4"), "NVIDIA L4");
  EXPECT_EQ(found("l40s"), "NVIDIA L40S");
  EXPECT_EQ(found("4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found("rtx 4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found("RTX4090"), "NVIDIA GeForce RTX 4090");
  EXPECT_EQ(found("A100-80GB"), "NVIDIA A100 80GB");
  EXPECT_EQ(found("A100_40gb"), "NVIDIA A100 40GB");
}

TEST(DeviceModel, ModelIsPreferredToItsVariants) {
  EXPECT_EQ(found("rtx 3080"), "NVIDIA GeForce RTX 3080");
  EXPECT_EQ(found("geforce rtx 3080 ti"), "NVIDIA GeForce RTX 3080 Ti");
  EXPECT_EQ(found("4070"), "NVIDIA GeForce RTX 4070");
  EXPECT_EQ(found("4070 ti super"), "NVIDIA GeForce RTX 4070 Ti SUPER");
  EXPECT_EQ(found("RTX3090Ti"), "NVIDIA GeForce RTX 3090 Ti");
  EXPECT_EQ(found("Tesla T4"), "NVIDIA T4");
  EXPECT_EQ(found("Tesla V100 32GB"), "NVIDIA V100 32GB");
  EXPECT_EQ(found("P100"), "NVIDIA P100");
  EXPECT_EQ(found("V100"), "NVIDIA V100") << "the smaller of two";
  EXPECT_EQ(found("5060 Ti"), "NVIDIA GeForce RTX 5060 Ti");
  EXPECT_EQ(found("5060-ti-16gb"), "NVIDIA GeForce RTX 5060 Ti 16GB");
}

TEST(DeviceModel, EveryGenerationSinceRtx20IsKnown) {
  for (const char* name :
       {"2060", "2070", "2080", "2080 ti", "3050", "3060", "3070",  "3080", "3090", "4060", "4070",
        "4080", "4090", "5060", "5070",    "5080", "5090", "A6000", "L40S", "H200", "B200", "T4"})
    EXPECT_TRUE(device_model(name)) << name;
}

TEST(DeviceModel, AmbiguousWordListsTheModels) {
  EXPECT_EQ(found("A100"),
            "'A100' matches several GPUs | choose one of them: NVIDIA A100 40GB, NVIDIA A100 80GB");
}

TEST(DeviceModel, UnknownModelSuggestsTheNearest) {
  EXPECT_EQ(found("NVIDIA L5"), "no GPU named 'NVIDIA L5' is known | did you mean 'NVIDIA L4'?");
  EXPECT_EQ(found("RTX 4091"),
            "no GPU named 'RTX 4091' is known | did you mean 'NVIDIA GeForce RTX 4090'?");
}

TEST(DeviceModel, UnknownVariantSuggestsItsModel) {
  const auto suggests = [](const char* name, const std::string& model) {
    EXPECT_THAT(found(name), testing::EndsWith(" is known | did you mean '" + model + "'?"))
        << name;
  };
  suggests("RTX 4060 Laptop", "NVIDIA GeForce RTX 4060");
  suggests("NVIDIA GeForce RTX 4060 Laptop GPU", "NVIDIA GeForce RTX 4060");
  suggests("NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB");
  for (const DeviceModel& model : device_models())
    suggests((std::string(model.name) + " Variant").c_str(), std::string(model.name));
}

TEST(DeviceModel, UnrecognizableNameListsAllModels) {
  for (const char* name : {"list", "", "  ", "Radeon Instinct MI300X accelerator"}) {
    const std::string answer = found(name);
    for (const DeviceModel& model : device_models())
      EXPECT_THAT(answer, testing::HasSubstr(model.name));
  }
}

}  // namespace
}  // namespace runner
