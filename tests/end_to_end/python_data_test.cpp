// End-to-end tests of runs on a dataset that is the user's own Python code.

#include <filesystem>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/torch_python.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

/// 24 images of three classes; in training they are augmented with random numbers from Python and
/// numpy, and from torch if draw_in_torch(), since importing torch takes each reader seconds. Tests
/// can insert code into trouble(), which is called before a sample is made.
constexpr const char* kData = R"py(
import os, random, signal, sys, threading
import numpy as np

def retort():
    with open(f"/proc/{os.getppid()}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])

def trouble(index, part):
    pass

class Pictures:
    classes = ["bright", "dark", "striped"]

    def __init__(self, size, part):
        self.part = part
        self.targets = [index % 3 for index in range(size)]

    def __len__(self):
        return len(self.targets)

    def __getitem__(self, index):
        changed = trouble(index, self.part)
        if changed is not None:
            return changed
        label = self.targets[index]
        image = np.random.RandomState(index).rand(3, 16, 16).astype("float32") + (0, -1, 0)[label]
        if label == 2:
            image[:, ::2] = 1
        if self.part != "test":
            image *= random.uniform(0.9, 1.1)
            image = np.ascontiguousarray(np.roll(image, np.random.randint(3), axis=2))
            if os.path.exists("draws_in_torch"):
                import torch
                image = torch.from_numpy(image) + 0.1 * torch.randn(3, 16, 16)
        return {"image": image, "label": label}

def make(size=24, part="train"):
    return Pictures(size, part)
)py";

constexpr const char* kDataRecipe = R"py(
schema: 1
name: mine
seed: 3
device: cpu
defaults: [{model: tiny}, {memory: auto}, {train: from_scratch}, _self_]
model: {num_hidden_layers: 1, patch_size: 8, hidden_size: 32, intermediate_size: 32}
data:
  kind: data.python
  entry: my_data.py:make
  parts: {train: {part: train}, validation: {part: validation, size: 6}, test: {part: test, size: 6}}
train: {epochs: 2, batch_size: 8, checkpoint: {every: {steps: 1}}}
evaluate: {kind: evaluate.classification}
)py";

class PythonData : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch_python()) GTEST_SKIP() << kNoTorchPython;
    folder_.write("recipe.yaml", kDataRecipe);
    write_data();
  }

  /// Writes the dataset, with `trouble` as the body of trouble().
  void write_data(const std::string& trouble = "pass", const std::string& more = "") {
    std::string text = kData;
    const std::string empty = "part):\n    pass\n";
    text.replace(text.find(empty), empty.size(), "part):\n    " + trouble + "\n");
    folder_.write("my_data.py", text + more);
  }
  void draw_in_torch() { folder_.write("draws_in_torch", ""); }
  /// Trusts all Python files here, then runs `retort` with these arguments.
  Ended trusted(const std::string& words) {
    return run_shell("export XDG_CONFIG_HOME=\"$PWD/config\"; '" RETORT_BINARY_DIR
                     "/bin/retort' trust *.py -q && '" RETORT_BINARY_DIR "/bin/retort' " +
                         words,
                     folder_.path());
  }
  Ended run(const std::string& name, const std::string& more = "") {
    return trusted("run recipe.yaml python=" + torch_python()->string() + " run.dir=" + name + " " +
                   more);
  }
  std::string log(const std::string& name) const { return folder_.read(name + "/log.txt"); }

  struct Result {
    std::string weights, predictions;
    bool operator==(const Result&) const = default;
  };
  /// The result of a finished run.
  Result result(const std::string& name) const {
    const std::string nodes = name + "/nodes/";
    std::string best = folder_.read(nodes + "train/checkpoints/best");
    if (best.empty()) return {};
    best.pop_back();
    return {folder_.read(nodes + "train/checkpoints/" + best + "/model.safetensors"),
            folder_.read(nodes + "evaluate/predictions.csv")};
  }
  /// Runs with this body of trouble(), expects the run to fail with `exit`, and returns the printed
  /// errors.
  std::string failure(const std::string& trouble, int exit, const std::string& more = "") {
    write_data(trouble);
    const Ended ended = run("run", more);
    EXPECT_EQ(ended.exit, exit) << ended.err;
    return ended.err;
  }

  TemporaryFolder folder_;
};

/// Every command imports torch, which takes seconds.
class DeepPythonData : public PythonData {};

TEST_F(PythonData, AnyNumberOfWorkersGivesTheSameBits) {
  draw_in_torch();
  const Ended alone = run("alone");
  ASSERT_EQ(alone.exit, 0) << alone.err;
  EXPECT_THAT(log("alone"),
              HasSubstr("3 classes; samples: 24 for training, 6 for validation, 6 for test; each "
                        "sample has image float32 (3, 16, 16), label int64 ()"));
  EXPECT_THAT(log("alone"), Not(HasSubstr("its own random number generator")));
  ASSERT_NE(result("alone"), Result());
  const Ended some = run("some", "data.loader.workers=2");
  ASSERT_EQ(some.exit, 0) << some.err;
  EXPECT_TRUE(result("some") == result("alone"));
  const Ended still = run("still", "data.augmented=false");
  ASSERT_EQ(still.exit, 0) << still.err;
  EXPECT_NE(result("still").weights, result("alone").weights);
}

TEST_F(PythonData, RunInterruptedWithAHangingReaderResumesToTheSameBits) {
  draw_in_torch();
  ASSERT_EQ(run("whole").exit, 0);
  // In the second epoch, the first read of sample 5 gets different random numbers than in the
  // first.
  write_data(
      "if index == 5 and part == 'train' and os.path.exists('hang'):\n"
      "        SEEN.add(random.getstate())\n"
      "        if len(SEEN) == 2:\n"
      "            os.remove('hang')\n"
      "            os.kill(retort(), signal.SIGINT)\n"
      "            threading.Event().wait()",
      "SEEN = set()\n");
  folder_.write("hang", "");
  const Ended ended = run("run", "data.loader.timeout=null data.loader.workers=1");
  EXPECT_EQ(ended.exit, 75) << ended.err;
  const Ended resumed = trusted("resume run");
  EXPECT_EQ(resumed.exit, 0) << resumed.err;
  EXPECT_TRUE(result("run") == result("whole"));
}

TEST_F(PythonData, ReaderEndsWhenTheRunIsKilled) {
  write_data(
      "import fcntl\n"
      "    global lock\n"
      "    lock = open('lock', 'w')\n"
      "    fcntl.flock(lock, fcntl.LOCK_EX)\n"
      "    os.kill(retort(), signal.SIGKILL)\n"
      "    while True: pass");
  EXPECT_NE(run("run").exit, 0);
  EXPECT_EQ(run_shell("flock --wait 20 lock true", folder_.path()).exit, 0);
}

TEST_F(PythonData, PythonModelCanTrainOnPythonData) {
  folder_.write("my_net.py",
                "import torch\n"
                "def make(num_classes):\n"
                "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(768, "
                "num_classes))\n");
  std::string recipe = kDataRecipe;
  recipe.replace(recipe.find("{model: tiny}, "), 15, "");
  const auto model_at = recipe.find("model: {");
  recipe.replace(model_at, recipe.find('\n', model_at) - model_at,
                 "model: {kind: model.python, entry: \"my_net.py:make\"}");
  folder_.write("recipe.yaml", recipe);
  const Ended ended = run("run", "data.loader.workers=2");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_NE(result("run"), Result());
}

TEST_F(PythonData, SingleDatasetIsSplitByClass) {
  const Ended ended =
      run("run", "data.parts=null '+data.split={train: 0.5, validation: 0.25, test: 0.25}'");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(log("run"), HasSubstr("12 for training, 6 for validation, 6 for test"));
  const Ended again = trusted("evaluate run run.dir=again");
  ASSERT_EQ(again.exit, 0) << again.err;
  EXPECT_EQ(folder_.read("again/nodes/evaluate/predictions.csv"),
            folder_.read("run/nodes/evaluate/predictions.csv"));
  const json metrics = json::parse(folder_.read("run/nodes/evaluate/metrics.json"));
  ASSERT_EQ(metrics.at("per_class").size(), 3);
  for (const json& one : metrics["per_class"]) EXPECT_EQ(one.at("support"), 2) << one;
}

TEST_F(DeepPythonData, SweepPoolsFolds) {
  EXPECT_THAT(run("alone", "'+data.folds={count: 3}'").err,
              HasSubstr("folds divide a single dataset, but split is null"));
  const Ended ended = trusted(
      "sweep recipe.yaml 'data.folds.index=range(0,3)' sweep.dir=sweep data.parts=null "
      "'+data.split={train: 0.5, validation: 0.25, test: 0.25}' '+data.folds={count: 3}' "
      "+evaluate.inputs.test=data.validation +evaluate.allow_trained=true python=" +
      torch_python()->string());
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("18")) << ended.out;
}

TEST_F(DeepPythonData, ChangedDatasetIsRejectedInEvaluation) {
  ASSERT_EQ(run("run", "data.parts=null '+data.split={}'").exit, 0);
  std::string text = folder_.read("my_data.py");
  text.replace(text.find("size=24"), 7, "size=30");
  folder_.write("my_data.py", text);
  const Ended changed = trusted("evaluate run run.dir=again");
  EXPECT_NE(changed.exit, 0);
  EXPECT_THAT(changed.err, AllOf(HasSubstr("E0807"), HasSubstr("has changed since the run began")));
}

TEST_F(DeepPythonData, RecipeNamesTheTensorsOfATuple) {
  write_data("return np.full((3, 16, 16), index, dtype='float32'), index % 3");
  EXPECT_THAT(run("refused").err, HasSubstr("name them in their order: tensors: [image, label]"));
  const Ended ended = run("run", "'data.tensors=[image, label]'");
  EXPECT_EQ(ended.exit, 0) << ended.err;
}

TEST_F(PythonData, PlanNeedsNoFolderAndValidateDoesNotRunCode) {
  write_data("pass", "open('has_run', 'w')\n");
  EXPECT_EQ(trusted("validate recipe.yaml").exit, 0);
  EXPECT_FALSE(fs::exists(folder_ / "has_run"));
  const Ended planned = trusted("plan recipe.yaml python=" + torch_python()->string());
  EXPECT_EQ(planned.exit, 0) << planned.err;
  EXPECT_TRUE(fs::exists(folder_ / "has_run"));
}

TEST_F(PythonData, UntrustedDatasetDoesNotRun) {
  const Ended ended = retort("run recipe.yaml python=" + torch_python()->string(), folder_.path());
  EXPECT_THAT(ended.err, AllOf(HasSubstr("E0714"), HasSubstr("retort trust my_data.py")));
}

TEST_F(PythonData, RecipeWithoutPartsOrSplitIsRejected) {
  const Ended ended = run("run", "data.parts=null");
  EXPECT_EQ(ended.exit, 78);
  EXPECT_THAT(ended.err, HasSubstr("neither parts nor split is set"));
}

TEST_F(PythonData, ExceptionIsReportedWithItsSample) {
  const std::string said = failure("if index == 7: raise ValueError('no such picture')", 1);
  EXPECT_THAT(said, AllOf(HasSubstr("sample 7 of train: ValueError: no such picture"),
                          HasSubstr("my_data.py:"), HasSubstr("on_corrupt: skip")));
  EXPECT_THAT(log("run"), HasSubstr("Traceback (most recent call last)"));
}

TEST_F(PythonData, SampleWithAnExceptionCanBeSkipped) {
  write_data("if index == 7 and part == 'train': sys.exit(3)");
  const Ended ended = run("run", "data.on_corrupt=skip data.loader.workers=2");
  EXPECT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(log("run"), HasSubstr("samples skipped because they cannot be read: 1"));
}

TEST_F(PythonData, ExceptionInTheEntryPointIsReported) {
  write_data("pass", "\ndef make(**arguments):\n    raise OSError('no disk')\n");
  const Ended ended = run("run");
  EXPECT_EQ(ended.exit, 1);
  EXPECT_THAT(ended.err, AllOf(HasSubstr("OSError: no disk"), HasSubstr("/data/entry")));
}

TEST_F(PythonData, KilledReaderIsReported) {
  EXPECT_THAT(
      failure("if index == 7: os.kill(os.getpid(), signal.SIGKILL)", 1, "data.loader.workers=2"),
      HasSubstr("sample 7 of train: the process that reads it was killed by signal 9"));
}

TEST_F(DeepPythonData, LargeOutputDoesNotDisturbTheRun) {
  write_data("print('x' * 100000)");
  const Ended ended = run("run", "data.loader.workers=2");
  EXPECT_EQ(ended.exit, 0) << ended.err.substr(0, 2000);
}

TEST_F(DeepPythonData, ThreadsOfTheDatasetDoNotDisturbTheRun) {
  write_data("threading.Thread(target=threading.Event().wait).start()");
  EXPECT_EQ(run("run").exit, 0);
}

TEST_F(PythonData, SampleThatDiffersFromTheFirstOneIsDescribed) {
  const struct {
    const char* sample;
    const char* says;
  } cases[] = {
      {"{'image': np.ones((3, 4, 5), 'float32'), 'label': np.int16(2)}", "taken"},
      {"{'image': torch.ones(5, 4, 3).permute(2, 1, 0), 'label': torch.tensor(1)}", "taken"},
      {"{'image': np.ones((3, 5, 5), 'float32'), 'label': 1}",
       "its 'image' is float32 (3, 5, 5), but that of sample 0 is float32 (3, 4, 5)"},
      {"{'image': np.ones((3, 4, 5), 'uint8'), 'label': 1}", "its 'image' is uint8 (3, 4, 5)"},
      {"{'image': np.ones((3, 4, 5)), 'label': 1}", "its 'image' is float64"},
      {"{'image': np.ones((3, 4, 5), 'complex64'), 'label': 1}", "its 'image' is complex64"},
      {"{'image': np.full((3, 4, 5), np.nan, 'float32'), 'label': 1}", "its 'image' contains NaN"},
      {"{'image': torch.full((3, 4, 5), np.nan), 'label': 1}", "its 'image' contains NaN"},
      {"{'image': torch.ones(3, 4, 5, device='meta'), 'label': 1}", "a tensor on meta"},
      {"{'image': torch.ones(3, 4, 5).to_sparse(), 'label': 1}", "of layout torch.sparse_coo"},
      {"{'image': torch.ones(3, 0, 5), 'label': 1}", "of shape (3, 0, 5)"},
      {"{'image': None, 'label': 1}", "its 'image' is None"},
      {"{'image': 'a text', 'label': 1}", "its 'image' is of type str"},
      {"{'image': PIL.Image.new('RGB', (5, 4)), 'label': 1}", "taken"},
      {"{'image': PIL.Image.new('P', (5, 4)), 'label': 1}", "taken"},
      {"{'image': PIL.Image.new('RGBA', (6, 4)), 'label': 1}", "image.resize((224, 224))"},
      {"{'image': PIL.Image.new('I;16', (5, 4)), 'label': 1}",
       "its 'image' is a PIL image of mode I;16 - convert it to an array"},
      {"{'mask': PIL.Image.new('L', (5, 4)), 'label': 1}",
       "its 'mask' is a PIL image of mode L - name it 'image'"},
      {"{'label': 1}", "it has no 'image', which sample 0 has"},
      {"{'image': np.ones((3, 4, 5), 'float32'), 'label': 1, 'more': 2}",
       "it has 'more', which sample 0 lacks"},
      {"{'image': np.ones((3, 4, 5), 'float32'), 'label': 3}",
       "its label is 3, but there are 3 classes"},
      {"{'image': np.ones((3, 4, 5), 'float32'), 'label': 0.5}", "its 'label' is float32 ()"},
      {"{'image': np.ones((3, 4, 5), 'float32'), 'label': 'b'}",
       "its 'label' is a string - use the number of its class: 'b' is 1"},
      {"17", "it is of type int"},
      {"(1, 2)", "name them in their order: tensors: [image, label]"},
  };
  std::string script = "import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
                       "/stages/python')\n"
                       "import numpy as np, torch, PIL.Image\n"
                       "from retort_host.samples import BadSample, DataSet\n"
                       "class Two(list): classes = ['a', 'b', 'c']\n"
                       "def say(sample):\n"
                       "    first = {'image': np.zeros((3, 4, 5), 'float32'), 'label': 0}\n"
                       "    request = dict.fromkeys(['names', 'classes', 'group'])\n"
                       "    data = DataSet(Two([first, sample]), {'entry': '', **request})\n"
                       "    data.expected = [item.spec() for item in data.items(0, 1)]\n"
                       "    try: data.check(data.items(1, 1)); print('taken')\n"
                       "    except BadSample as error: print(error, '-', error.help)\n";
  for (const auto& one : cases) script += "say(" + std::string(one.sample) + ")\n";
  folder_.write("say.py", script);
  const Ended said = run_shell("'" + torch_python()->string() + "' say.py", folder_.path());
  ASSERT_EQ(said.exit, 0) << said.err;
  std::istringstream lines(said.out);
  for (const auto& [sample, says] : cases) {
    std::string line;
    std::getline(lines, line);
    EXPECT_THAT(line, HasSubstr(says)) << sample;
  }
}

TEST_F(PythonData, PilImageMatchesToTensor) {
  folder_.write("same.py",
                "import sys; sys.path.insert(0, '" RETORT_SOURCE_DIR
                "/stages/python')\n"
                "import numpy as np, torch, PIL.Image\n"
                "from torchvision.transforms.functional import to_tensor\n"
                "from retort_host.samples import item_of\n"
                "pixels = np.random.RandomState(1).randint(0, 256, (9, 7, 4)).astype('uint8')\n"
                "for mode in ('RGB', 'RGBA', 'L', 'LA', 'P', 'CMYK', '1'):\n"
                "    picture = PIL.Image.fromarray(pixels, 'RGBA').convert('RGB').convert(mode)\n"
                "    item, tensor = item_of('image', picture), to_tensor(picture.convert('RGB'))\n"
                "    assert item.shape == [3, 9, 7] and item.dtype == 'float32', mode\n"
                "    assert bytes(item.data) == tensor.numpy().tobytes(), mode\n");
  const Ended same = run_shell("'" + torch_python()->string() + "' same.py", folder_.path());
  if (same.err.find("No module named 'torchvision'") != same.err.npos)
    GTEST_SKIP() << "this Python has no package 'torchvision'";
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(PythonData, HuggingFaceLikeDatasetWithImagesCanBeTrainedOn) {
  folder_.write("my_data.py",
                "import numpy, PIL.Image\n"
                "class ClassLabel: names = ['a', 'b', 'c']\n"
                "class Table:\n"
                "    features, column_names = {'label': ClassLabel()}, ['image', 'label']\n"
                "    def __init__(self, size): self.size = size\n"
                "    def __len__(self): return self.size\n"
                "    def __getitem__(self, index):\n"
                "        if index == 'label': return [i % 3 for i in range(self.size)]\n"
                "        mode = ('RGB', 'L', 'P')[index % 3]\n"
                "        image = PIL.Image.new('RGB', (16, 16), (90 * (index % 3), 9, 9))\n"
                "        return {'image': image.convert(mode), 'label': index % 3}\n"
                "def make(size=24, part=''): return Table(size)\n");
  const Ended ended = run("run", "data.parts=null '+data.split={}' data.loader.workers=2");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(log("run"),
              AllOf(HasSubstr("each sample has image float32 (3, 16, 16), label int64 ()"),
                    Not(HasSubstr("without regard"))));
}

TEST_F(PythonData, HuggingFaceDatasetCanBeTrainedOn) {
  if (!torch_python_has("datasets")) GTEST_SKIP() << "this Python has no package 'datasets'";
  folder_.write(
      "my_data.py",
      "import datasets, numpy\n"
      "def make(size=24, part=''):\n"
      "    rows = {'image': [numpy.full((3, 16, 16), i % 3, 'float32') for i in "
      "range(size)], 'label': [i % 3 for i in range(size)]}\n"
      "    kinds = datasets.Features({'image': datasets.Array3D((3, 16, 16), 'float32'), "
      "'label': datasets.ClassLabel(names=['a', 'b', 'c'])})\n"
      "    return datasets.Dataset.from_dict(rows, features=kinds).with_format('numpy')\n");
  const Ended ended = run("run", "data.parts=null '+data.split={}' data.loader.workers=2");
  ASSERT_EQ(ended.exit, 0) << ended.err;
  EXPECT_THAT(log("run"), AllOf(HasSubstr("3 classes"), Not(HasSubstr("without regard"))));
}

}  // namespace
