#include "stages/python/python_step.h"

#include <stdexcept>

#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "tests/support/fake_python.h"
#include "tests/support/refused.h"

namespace stages {
namespace {

/// A step of fake Python, and four samples for it.
struct MadeStep {
  MadeStep() {
    python.loss = [](const NamedTensors& encoded, const NamedTensors&) {
      return encoded.at("logits").sum(1);
    };
  }
  at::Tensor loss(at::Device device = at::kCPU) {
    const PythonStep step("my_step.py:Step", nlohmann::ordered_json::object());
    const Batch batch({{"image", torch::zeros({4, 2}, device)}}, 4);
    return step.loss({{"logits", torch::ones({4, 3}, device)}}, batch);
  }
  FakePython python;
};

TEST(PythonStep, LossIsTheReturnValue) {
  EXPECT_TRUE(MadeStep().loss().equal(torch::full({4}, 3.0)));
}

TEST(PythonStep, TensorOnAnotherDeviceIsRejected) {
  MadeStep made;
  made.python.loss = [](const NamedTensors&, const NamedTensors&) { return torch::zeros({4}); };
  EXPECT_REFUSED(made.loss(at::kMeta), kStageFailed, "", "loss() of my_step.py:Step returned",
                 "on cpu", "not on meta", "device=x.device");
}

TEST(PythonStep, HostAdviceIsPassedOn) {
  MadeStep made;
  made.python.advice = "leave the draws out";
  made.python.loss = [](const NamedTensors&, const NamedTensors&) -> at::Tensor {
    throw std::runtime_error("it draws");
  };
  EXPECT_REFUSED(made.loss(), kStageFailed, "", "it draws", "leave the draws out");
}

TEST(PythonStep, OutOfMemoryInPythonIsNotAFailureOfItsCode) {
  MadeStep made;
  made.python.loss = [](const NamedTensors&, const NamedTensors&) -> at::Tensor {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: tried to allocate 1 GiB");
  };
  EXPECT_THROW(made.loss(), c10::OutOfMemoryError);
}

TEST(PythonStep, TensorsOfACallAreReleasedAfterTheCall) {
  MadeStep made;
  made.loss();
  EXPECT_REFUSED(taken_from_python("batch:image"), kStageFailed, "", "'batch:image'");
}

TEST(PythonStep, WorkerWithoutPythonIsReported) {
  EXPECT_REFUSED(PythonStep("my_step.py:Step", nlohmann::ordered_json::object()), kStageFailed, "",
                 "without Python");
}

}  // namespace
}  // namespace stages
