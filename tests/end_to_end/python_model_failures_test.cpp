// End-to-end tests of Python networks that fail, or do something forbidden.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_model.h"

namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
namespace fs = std::filesystem;

using FailingHostedModel = HostedModel;

TEST_F(FailingHostedModel, ExceptionsAreReportedWithTheirLocationAndTraceback) {
  const std::string raises = "raise ValueError('no luck')\n";
  EXPECT_THAT(failure(net("", "        " + raises)),
              AllOf(HasSubstr("ValueError: no luck ("), HasSubstr("-v shows Python's traceback")));
  const Ended shown = train("-v");
  EXPECT_THAT(shown.err, HasSubstr("Traceback (most recent call last):\n  File \"" +
                                   fs::canonical(folder_.path()).string()));
  EXPECT_THAT(
      failure(net("        if x.device.type != 'meta': " + raises)),
      AllOf(HasSubstr("ValueError: no luck ("), HasSubstr("Python's traceback is in log.txt")));
  EXPECT_THAT(file_text(folder_ / "run/log.txt"), HasSubstr("Traceback (most recent call last)"));
  EXPECT_THAT(failure(net("        x = Broken.apply(x * self.one)\n",
                          "        self.one = nn.Parameter(torch.ones(1))\n", R"(
class Broken(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        raise ValueError('no luck')

)")),
              HasSubstr("ValueError: no luck ("));
  // The error is also reported if BatchNorm rules out other ways to compute a step, such as two
  // passes.
  EXPECT_THAT(failure(net("        " + raises, "        self.mix = nn.BatchNorm2d(3)\n")),
              HasSubstr("ValueError: no luck ("));
  EXPECT_THAT(failure(net("        raise SystemExit('leaving')\n")),
              HasSubstr("SystemExit: leaving"));
  EXPECT_THAT(
      failure(net("        sys.stdout.close(); sys.stderr.close(); " + raises, "", "import sys\n")),
      HasSubstr("ValueError: no luck ("));
}

TEST_F(DeepHostedModel, InvalidEntriesAreReportedWithAdvice) {
  trust("my_net.py", net() + R"(

def more(num_classes, width_of_all): return make(num_classes)
def none(num_classes): pass
def no_classes(): return make(3)
def lazy(num_classes): return nn.Sequential(nn.Flatten(), nn.LazyLinear(num_classes))
def weightless(num_classes): return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
def ten(num_classes): return make(10)
def large(num_classes): return nn.Sequential(nn.Conv2d(3, num_classes, 64), nn.Flatten())
def imports(num_classes): import no_such_package
number = 3
)");
  const struct {
    const char *entry, *says, *advice;
  } cases[] = {
      {"my_net.py:mak", "my_net.py has no 'mak' [/model/entry]", "did you mean 'make'?"},
      {"my_net:mak", "my_net has no 'mak'", "did you mean 'make'?"},
      {"my_net.py:number", "is of type int, not a function or class", "name the function or class"},
      {"my_net.py:more", "my_net.py:more: missing a required argument: 'width_of_all'",
       "it takes (num_classes, width_of_all); set them by name"},
      {"my_net.py:more +model.arguments.width_of_al=3",
       "missing a required argument: 'width_of_all'", "did you mean 'width_of_all'?"},
      {"my_net.py:no_classes", "got an unexpected keyword argument 'num_classes'",
       "class_argument names the argument that takes the number of classes; null omits this "
       "argument"},
      {"my_net.py:none", "my_net.py:none returned nothing, not a torch.nn.Module",
       "return the network"},
      {"my_net.py:lazy", "the network's '1.weight' has no shape yet", "specify the layer's sizes"},
      {"my_net.py:weightless", "the network has no weights, so there is nothing to train",
       "choose a network with weights"},
      {"my_net.py:ten", "10 logits per sample, but the data needs 3, one per class [/model/",
       "set its last layer's size to the number of classes, which it receives as 'num_classes'"},
      {"my_net.py:large", "Kernel size can't be greater than actual input size",
       "the network's input has the shape (1, 3, 16, 16); for images, the data's image_size"},
      {"my_net.py:imports", "No module named 'no_such_package' (",
       "if it is your own file, put it into the folder of the code or of the recipe; otherwise "},
  };
  for (const auto& [entry, says, advice] : cases) {
    const Ended refused = train("model.entry=" + std::string(entry));
    EXPECT_NE(refused.exit, 0) << entry;
    EXPECT_THAT(refused.err, HasSubstr(says)) << entry;
    EXPECT_THAT(refused.err, HasSubstr(advice)) << entry;
  }
  EXPECT_FALSE(fs::exists(folder_ / "run"));
}

TEST_F(FailingHostedModel, MistypedLibraryModelSuggestsTheNearestName) {
  if (!torch_python_has("timm")) GTEST_SKIP() << "this Python has no package 'timm'";
  const Ended refused =
      train("model.entry=timm:create_model +model.arguments.model_name=resnet18x");
  EXPECT_THAT(refused.err, HasSubstr("did you mean 'resnet18'"));
  const Ended sized =
      train("model.entry=timm:create_model +model.arguments.model_name=vit_tiny_patch16_224");
  EXPECT_THAT(sized.err, HasSubstr("Input height (16) doesn't match model (224)"));
  EXPECT_THAT(sized.err, HasSubstr("the network's input has the shape (1, 3, 16, 16)"));
  ASSERT_EQ(here("trust no_such_package").exit, 0);
  EXPECT_THAT(train("model.entry=no_such_package:make").err,
              HasSubstr("this Python has no module 'no_such_package'"));
}

TEST_F(DeepHostedModel, InvalidOutputsAreReported) {
  const auto returning = [&](const std::string& expression) {
    return failure(net("        return " + expression + "\n"));
  };
  EXPECT_THAT(returning("None"), HasSubstr("the network returned nothing"));
  EXPECT_THAT(returning("self.fc(torch.zeros(2, 4, device=x.device))"),
              HasSubstr("returned logits of shape (2, 3) for"));
  EXPECT_THAT(returning("torch.zeros(len(x), 7, device=x.device)"),
              HasSubstr("returned 7 logits per sample, but the data needs 3"));
  EXPECT_THAT(
      returning("self.fc(torch.zeros(len(x), 2, 4, device=x.device))"),
      HasSubstr(", 2, 3), but train.supervised needs one number for each sample and class"));
  EXPECT_THAT(returning("torch.zeros(len(x), 3, device=x.device)"),
              HasSubstr("returned outputs that do not depend on its weights"));
  EXPECT_THAT(returning("torch.zeros(len(x), 3)"),
              HasSubstr("returned outputs that do not depend on its weights"))
      << "code that names a device needs a real step";
}

TEST_F(FailingHostedModel, NonFiniteLossIsReportedWithItsStep) {
  EXPECT_THAT(failure(net("        x = x * float('nan')\n")), HasSubstr("is not finite at step 1"));
}

TEST_F(DeepHostedModel, NetworkMustNotChangeItsInputOrItsWeights) {
  EXPECT_THAT(failure(net("        x.mul_(2)\n")), HasSubstr("changes its input in place"));
  EXPECT_THAT(
      failure(net("        self.fc.weight = nn.Parameter(self.fc.weight.detach().clone())\n")),
      HasSubstr("has replaced its parameter 'fc.weight'"));
  EXPECT_THAT(failure(net("        self.mean = self.mean + 1\n",
                          "        self.register_buffer('mean', torch.zeros(1))\n")),
              HasSubstr("has replaced its buffer 'mean'"));
  EXPECT_THAT(failure(net("        with torch.no_grad(): self.fc.weight.clamp_(-1, 1)\n")),
              HasSubstr("changes its parameters in its forward pass"));
  EXPECT_THAT(failure(net("        self.fc.weight.data.clamp_(-1, 1)\n")),
              ContainsRegex("changes its parameters in its forward pass, with aten::clamp_ "
                            "\\(my_net.py:[0-9]+\\)"));
}

TEST_F(DeepHostedModel, BackwardPassMustNotChangeWeights) {
  const auto hooked = [](const std::string& change) {
    return net(
        "", "        self.fc.weight.register_hook(lambda gradient: (" + change + ", None)[1])\n");
  };
  for (const char* change : {"self.fc.weight.data.mul_(0.5)", "self.fc.weight.detach().mul_(0.5)"})
    EXPECT_THAT(failure(hooked(change)),
                ContainsRegex("changes its parameters in its backward pass, with aten::mul_"
                              ".*\\(my_net.py:[0-9]+\\)"));
  trust("my_net.py", hooked("self.fc.weight.data.abs()"));
  EXPECT_EQ(train("", "reads").exit, 0);
}

TEST_F(FailingHostedModel, ChangedWeightsAreDetectedInARealStep) {
  EXPECT_THAT(
      failure(net("        if not x.is_meta: self.fc.bias.data.add_(1)\n")),
      AllOf(HasSubstr("Python code has changed the network's parameter 'fc.bias' by step 1, "
                      "although only the optimizer may change parameters [/model/entry]"),
            HasSubstr("look for code that writes to weight.data")));
}

TEST_F(DeepHostedModel, ChangedWeightsAreDetectedInALaterStep) {
  const std::string count = R"(
calls = []
def later(network):
    if not network.fc.weight.is_meta: calls.append(1)
    if len(calls) > 10: network.fc.weight.data.mul_(0.999)
)";
  trust("my_net.py",
        net("", "        self.fc.weight.register_hook(lambda gradient: later(self))\n", count));
  const Ended run = train("train.epochs=64");
  EXPECT_EQ(run.exit, 1) << run.err;
  EXPECT_THAT(run.err, HasSubstr("parameter 'fc.weight' by step 64"));
}

TEST_F(DeepHostedModel, RunResumesAfterCodeHasFailedInAStep) {
  trust("my_net.py", net("        fail_once(self, x)\n", "", R"(
import os
import sys
steps = []
def fail_once(network, x):
    if network.training and x.device.type != 'meta' and os.path.exists('fail'):
        steps.append(1)
        if len(steps) == 4: exec(open('fail').read())
)"));
  ASSERT_EQ(train("", "whole").exit, 0);
  const struct {
    const char *does, *says;
  } cases[] = {
      {"raise ValueError('no luck')", "ValueError: no luck"},
      {"raise KeyboardInterrupt", "KeyboardInterrupt"},
      {"sys.exit(0)", "SystemExit: 0"},
      {"os._exit(0)", "the worker exited with code 0 before it had finished"},
  };
  for (const auto& [does, says] : cases) {
    SCOPED_TRACE(does);
    folder_.write("fail", does);
    fs::remove_all(folder_ / "run");
    const Ended failed = train();
    EXPECT_EQ(failed.exit, 1) << failed.err;
    EXPECT_THAT(failed.err, HasSubstr(says));
    EXPECT_THAT(failed.err, HasSubstr("continue with `retort resume run`"));
    fs::remove(folder_ / "fail");
    const Ended resumed = here("resume run");
    EXPECT_EQ(resumed.exit, 0) << resumed.err;
    EXPECT_TRUE(weights("run") == weights("whole"));
  }
}

TEST_F(DeepHostedModel, PrintsThreadsAndForksDoNotDisturbTheRun) {
  trust("my_net.py",
        net(R"(        if x.device.type != 'meta':
            print('x' * (1 << 20))
            if os.fork() == 0:
                raise RuntimeError('the child ends')
)",
            "        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
            "import os\nimport threading\nimport time\n"));
  const Ended run = train("train.epochs=1");
  EXPECT_EQ(run.exit, 0) << run.err.substr(0, 2000);
}

TEST_F(FailingHostedModel, CodeThatCatchesInterruptsDoesNotKeepTheRunAlive) {
  trust("my_net.py", net(R"(        if x.device.type != 'meta':
            try:
                open('started', 'w')
                if number_of_calls():
                    os.kill(os.getppid(), signal.SIGINT)
            except BaseException:
                pass
)",
                         "", R"(
import os
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
calls = []
def number_of_calls():
    calls.append(1)
    return len(calls) == 2
)"));
  const Ended run = train("train.epochs=1000");
  EXPECT_EQ(run.exit, 75) << run.err.substr(0, 2000);  // saved
}

}  // namespace
