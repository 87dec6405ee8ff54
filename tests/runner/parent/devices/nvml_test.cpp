#include "runner/parent/devices/nvml.h"

#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace runner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr std::int64_t kMiB = 1 << 20;

class NvmlTest : public testing::Test {
 protected:
  ~NvmlTest() override { unsetenv("FAKE_NVML_TABLE"); }

  DeviceReading read(const std::string& table) {
    std::ofstream(folder_ / "table.json") << table;
    setenv("FAKE_NVML_TABLE", (folder_ / "table.json").c_str(), 1);
    return nvml_.read();
  }

  TemporaryFolder folder_;
  Nvml nvml_{RETORT_FAKE_NVML, "/no/driver"};
};

TEST_F(NvmlTest, ReportsEverythingFromTheDriver) {
  const DeviceReading reading = read(R"({"driver": "580.82.07", "cuda": 13000, "devices": [
      {"uuid": "GPU-1", "name": "NVIDIA L4", "bus_id": "00000000:3B:00.0", "capability": [8, 9], "total": 23034,
       "free": 20000, "reserved": 480, "utilization": 7, "processes": [[4711, 900], [12, null]],
       "graphics": [[4711, 950], [99, 5]]}]})");
  EXPECT_EQ(reading.why_none, "");
  EXPECT_EQ(reading.driver, "580.82.07");
  EXPECT_EQ(reading.cuda, 13000);
  EXPECT_TRUE(reading.has_driver);
  ASSERT_EQ(reading.devices.size(), 1U);
  const DeviceFacts& device = reading.devices[0];
  EXPECT_EQ(device.index, 0);
  EXPECT_FALSE(device.instance);
  EXPECT_EQ(device.uuid, "GPU-1");
  EXPECT_EQ(device.gpu_uuid, "GPU-1");
  EXPECT_EQ(device.bus_id, "00000000:3B:00.0");
  EXPECT_EQ(device.name, "NVIDIA L4");
  EXPECT_EQ(device.capability, 89);
  EXPECT_EQ(device.total, 23034 * kMiB);
  EXPECT_EQ(device.free, 20000 * kMiB);
  EXPECT_EQ(device.reserved, 480 * kMiB);
  EXPECT_EQ(device.utilization, 7);
  EXPECT_THAT(device.holders,
              ElementsAre(DeviceHolder{12, std::nullopt}, DeviceHolder{99, 5 * kMiB},
                          DeviceHolder{4711, 950 * kMiB}));
}

TEST_F(NvmlTest, MissingValuesAreLeftOut) {
  const DeviceReading reading =
      read(R"({"devices": [{"uuid": "GPU-1"}, {"uuid": "GPU-2", "total": 100, "free": 50}]})");
  ASSERT_EQ(reading.devices.size(), 2U);
  EXPECT_EQ(reading.devices[0].name, "");
  EXPECT_FALSE(reading.devices[0].total || reading.devices[0].free ||
               reading.devices[0].utilization);
  EXPECT_EQ(reading.devices[1].free, 50 * kMiB);  // from the older query
  EXPECT_FALSE(reading.devices[1].reserved);
}

TEST_F(NvmlTest, UnusableGpusAreReported) {
  const DeviceReading reading =
      read(R"({"devices": [{"uuid": "GPU-1", "error": 15}, {"handle_error": 4},
      {"uuid": "GPU-3", "total": 100, "free": 50}, {"uuid": "GPU-4", "handle_error": 16}, {"handle_error": 999}]})");
  ASSERT_EQ(reading.devices.size(), 1U);
  EXPECT_EQ(reading.devices[0].index, 2);
  EXPECT_THAT(
      reading.problems,
      ElementsAre("GPU 0: it is lost: it has fallen off the bus or failed; restart the machine",
                  "GPU 1: you do not have permission to use it",
                  "GPU 3: it must be reset: `nvidia-smi --gpu-reset` as root",
                  "GPU 4: Unknown Error"));
}

TEST_F(NvmlTest, GpuLostDuringTheQueryIsReported) {
  const DeviceReading reading =
      read(R"({"devices": [{"uuid": "GPU-1", "total": 100, "memory_error": 15},
      {"uuid": "GPU-2", "total": 100, "memory_error": 16}, {"uuid": "GPU-3", "total": 100, "memory_error": 4}]})");
  ASSERT_EQ(reading.devices.size(), 1U) << "a GPU that merely does not report its memory is listed";
  EXPECT_EQ(reading.devices[0].uuid, "GPU-3");
  EXPECT_EQ(reading.devices[0].total, std::nullopt);
  EXPECT_THAT(reading.problems,
              ElementsAre(HasSubstr("GPU 0: it is lost"), HasSubstr("GPU 1: it must be reset")));
}

TEST_F(NvmlTest, MigGpuIsListedByItsInstances) {
  const DeviceReading reading = read(R"({"devices": [
      {"uuid": "GPU-1", "name": "NVIDIA A100", "total": 40000, "free": 40000, "mig": [
        null, {"uuid": "MIG-1", "name": "NVIDIA A100 MIG 3g.20gb", "total": 20000, "free": 19000},
        {"uuid": "MIG-2", "name": "NVIDIA A100 MIG 1g.5gb"}]},
      {"uuid": "GPU-2", "mig": []}]})");
  ASSERT_EQ(reading.devices.size(), 2U);
  EXPECT_EQ(reading.devices[0].uuid, "MIG-1");
  EXPECT_EQ(reading.devices[0].gpu_uuid, "GPU-1");
  EXPECT_EQ(reading.devices[0].instance, 0);
  EXPECT_EQ(reading.devices[0].free, 19000 * kMiB);
  EXPECT_EQ(reading.devices[1].uuid, "MIG-2");
  EXPECT_EQ(reading.devices[1].instance, 1);
  EXPECT_FALSE(reading.devices[1].free);  // the value of the whole GPU does not apply
  EXPECT_THAT(reading.problems,
              ElementsAre(StartsWith("GPU 1: MIG is enabled, but there are no instances")));
}

TEST_F(NvmlTest, LongProcessListsAreQueriedAgain) {
  std::string processes;
  for (int i = 1; i <= 100; ++i)
    processes += (i > 1 ? "," : "") + ("[" + std::to_string(i) + ",1]");
  const DeviceReading reading =
      read(R"({"devices": [{"uuid": "GPU-1", "processes": [)" + processes + "]}]}");
  EXPECT_EQ(reading.devices.at(0).holders.size(), 100U);
}

TEST_F(NvmlTest, DriverFailuresAreExplained) {
  DeviceReading reading = read(R"({"init": 9, "devices": []})");
  EXPECT_EQ(reading.why_none, "the NVIDIA driver is installed but not loaded");
  reading = read(R"({"init": 18, "devices": []})");
  EXPECT_EQ(reading.why_none, "the running NVIDIA driver is not the installed one");
  EXPECT_EQ(reading.help, "restart the machine");
  reading = read(R"({"init": 4, "devices": []})");
  EXPECT_EQ(reading.why_none, "the NVIDIA driver cannot be queried: Insufficient Permissions");
  EXPECT_THAT(reading.devices, IsEmpty());
}

TEST_F(NvmlTest, EachReadingIsFresh) {
  EXPECT_EQ(read(R"({"devices": [{"uuid": "GPU-1"}]})").devices.size(), 1U);
  EXPECT_EQ(read(R"({"devices": []})").devices.size(), 0U);
}

TEST(NvmlWithoutDriverTest, MissingDriverIsReported) {
  const DeviceReading reading = Nvml("/no/libnvidia-ml.so.1", "/no/driver").read();
  EXPECT_FALSE(reading.has_driver);
  EXPECT_EQ(reading.why_none, "this machine has no NVIDIA driver");
}

TEST(NvmlWithoutDriverTest, DriverWithoutItsLibraryIsReported) {
  const DeviceReading reading = Nvml("/no/libnvidia-ml.so.1", "/").read();
  EXPECT_TRUE(reading.has_driver);
  EXPECT_THAT(reading.why_none,
              HasSubstr("the NVIDIA driver cannot be queried: /no/libnvidia-ml.so.1: cannot open"));
  EXPECT_THAT(reading.help, HasSubstr("a container needs the driver's `utility` capability"));
}

TEST(NvmlWithoutDriverTest, LibraryWithoutNeededFunctionsIsTooOld) {
  const DeviceReading reading = Nvml("libm.so.6", "/").read();
  EXPECT_EQ(reading.why_none, "the NVIDIA driver is too old to be queried");
  EXPECT_EQ(reading.help, "update the NVIDIA driver to 580 or later");
}

}  // namespace
}  // namespace runner
