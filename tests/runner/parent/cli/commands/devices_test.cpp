// `retort devices` as built, with a table of GPUs instead of the driver's library
// (tests/support/fake_nvml.cpp).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kTable[] = R"({"driver": "580.82.07", "cuda": 13000, "devices": [
  {"uuid": "GPU-aaaa", "name": "NVIDIA L4", "bus_id": "00000000:3B:00.0", "capability": [8, 9], "total": 24576,
   "free": 2048, "reserved": 0, "utilization": 97, "processes": [[4711, 20480]]},
  {"uuid": "GPU-bbbb", "name": "NVIDIA L4", "total": 24576, "free": 20480, "reserved": 0},
  {"uuid": "GPU-cccc", "error": 15}]})";

class DevicesTest : public testing::Test {
 protected:
  Ended devices(const std::string& arguments = "", const std::string& variables = "") {
    folder_.write("table.json", table_);
    return run_shell("LD_LIBRARY_PATH='" +
                         std::filesystem::path(RETORT_FAKE_NVML).parent_path().string() +
                         "' FAKE_NVML_TABLE=table.json XDG_RUNTIME_DIR=\"$PWD\" " + variables +
                         " " + RETORT_BINARY_DIR "/bin/retort devices " + arguments,
                     folder_.path());
  }

  TemporaryFolder folder_;
  std::string table_ = kTable;
};

TEST_F(DevicesTest, ListsFreeMemoryAndHolders) {
  const Ended ended = devices();
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_EQ(ended.out.substr(0, ended.out.find("runs use the CPU")),
            "GPU  cuda     free   total  use  name       UUID      held by\n"
            "  0     0  2.0 GiB  24 GiB  97%  NVIDIA L4  GPU-aaaa  process 4711 (20 GiB)\n"
            "  1     1   20 GiB  24 GiB    -  NVIDIA L4  GPU-bbbb\n"
            "GPU 2: it is lost: it has fallen off the bus or failed; restart the machine\n");
}

TEST_F(DevicesTest, MarksHiddenGpus) {
  const Ended ended = devices("", "CUDA_VISIBLE_DEVICES=GPU-b,9");
  EXPECT_THAT(ended.out, HasSubstr("  0  hidden"));
  EXPECT_THAT(ended.out, HasSubstr("  1  0        20 GiB"));
  EXPECT_EQ(nlohmann::json::parse(
                devices("--json", "CUDA_VISIBLE_DEVICES=1").out)["result"]["devices"][1]["cuda"],
            "cuda:0");
}

TEST_F(DevicesTest, JsonHasEveryField) {
  const auto result = nlohmann::json::parse(devices("--json").out)["result"];
  EXPECT_EQ(result["driver"], "580.82.07");
  EXPECT_EQ(result["cuda"], "13.0");
  EXPECT_EQ(
      result["devices"][0].dump(),
      R"({"bus_id":"00000000:3B:00.0","capability":"8.9","cuda":"cuda:0","free_bytes":2147483648,"index":0,)"
      R"("instance":null,"name":"NVIDIA L4","processes":[{"bytes":21474836480,"pid":4711}],"reserved_bytes":0,)"
      R"("total_bytes":25769803776,"utilization":97,"uuid":"GPU-aaaa","visible":true})");
  EXPECT_EQ(result["devices"][1]["capability"], nullptr);
  EXPECT_EQ(result["problems"].size(), 1U);
}

TEST_F(DevicesTest, UnloadedDriverIsReported) {
  table_ = R"({"init": 9, "devices": []})";
  const Ended ended = devices();
  EXPECT_EQ(ended.exit, 0);
  EXPECT_THAT(ended.out, HasSubstr("runs use the CPU: "));
  EXPECT_THAT(ended.out,
              HasSubstr("help: load it: `modprobe nvidia` as root, or restart the machine\n"));
}

TEST_F(DevicesTest, UnknownCudaOrderIsRejected) {
  table_.replace(table_.rfind("NVIDIA L4"), 9, "NVIDIA T4");
  const Ended ended = devices("", "CUDA_VISIBLE_DEVICES=1");
  EXPECT_EQ(ended.exit, 69);
  EXPECT_THAT(ended.err,
              HasSubstr("set CUDA_DEVICE_ORDER=PCI_BUS_ID to number GPUs as nvidia-smi does"));
  EXPECT_EQ(devices("", "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1").exit, 0);
  EXPECT_THAT(devices().out, HasSubstr("  0  ?     2.0 GiB"));
}

TEST_F(DevicesTest, BestPrintsOneWordForScripts) {
  const Ended ended = devices("--best --need 12GiB");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  // "cpu" if the worker was built without CUDA support.
  EXPECT_THAT(ended.out, testing::AnyOf("GPU-bbbb\n", "cpu\n"));
  EXPECT_THAT(ended.err, Not(HasSubstr("error")));
}

TEST_F(DevicesTest, InvalidNeedSizeIsRejected) {
  const Ended ended = devices("--need 12");
  EXPECT_EQ(ended.exit, 64);
  EXPECT_EQ(ended.err,
            "error[E0501]: --need is not a size: '12'\n  help: write a size such as 8GiB, 512MiB "
            "or 8GB\n");
}

}  // namespace
