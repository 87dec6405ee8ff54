// End-to-end tests of activation checkpointing, adapters and pretrained weights of Python networks.

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/hosted_model.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;

using AdaptedHostedModel = HostedModel;

TEST_F(AdaptedHostedModel, RecomputedBlocksAreCertifiedAndNeedLessMemory) {
  trust("my_net.py", net());
  const auto planned = [&](const std::string& which) {
    const Ended plan = here(
        "plan own.yaml --json +model.arguments.width=32 +model.arguments.depth=8 "
        "memory.activation_checkpointing=" +
        which + " python=" + python_->string());
    EXPECT_EQ(plan.exit, 0) << plan.err;
    return json::parse(plan.out)["result"]["plans"][0]["live"].get<std::int64_t>();
  };
  EXPECT_LT(planned("block"), planned("none"));
  const Ended certified = here(
      "certify own.yaml memory.activation_checkpointing=block --json python=" + python_->string());
  EXPECT_EQ(certified.exit, 0) << certified.err << certified.out;
}

TEST_F(AdaptedHostedModel, BlockWithSeveralInputsIsNotRecomputed) {
  trust("my_net.py", net("        for pair in self.pairs: x = pair(x, self.shift * x)\n", R"(
        self.shift = nn.Parameter(torch.ones(1))
        self.pairs = nn.ModuleList([Pair(), Pair()])
)",
                         R"(
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Conv2d(3, 3, 1)

    def forward(self, one, other):
        return self.mix(one) + other

)"));
  const Ended blocks = train("train.epochs=1 memory.activation_checkpointing=block", "blocks");
  EXPECT_EQ(blocks.exit, 0) << blocks.err;
  const Ended pair = train("'memory.activation_checkpointing=[model.pairs.0]'", "pair");
  EXPECT_EQ(pair.exit, 78) << pair.err;
  EXPECT_THAT(pair.err, HasSubstr("does not match any module that can be recomputed on its own"));
}

TEST_F(AdaptedHostedModel, AdaptersAreTrainedAndMergedOnExport) {
  trust("my_net.py", net());
  const std::string adapters =
      "'model.adapters={targets: [conv, stem], rank: 2, modules_to_save: [fc]}'";
  const Ended run = train(adapters);
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("trainable params: "));
  const Ended exported = here("export run --out out");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  const Ended loaded = python(R"(
import json
import torch
from safetensors.torch import load_file
import my_net
torch.manual_seed(1)
with open('out/network.json') as file:
    network = my_net.make(**json.load(file)['arguments'])
network.load_state_dict(load_file('out/model.safetensors'))
print(sorted(network.state_dict()) == sorted(load_file('out/model.safetensors')))
)");
  EXPECT_EQ(loaded.exit, 0) << loaded.err;
  EXPECT_EQ(loaded.out, "True\n");
  const Ended predicted = here("predict run photos --top 1");
  EXPECT_EQ(predicted.exit, 0) << predicted.err;
}

constexpr const char* kConvolutionAdapters =
    "'model.adapters={targets: [conv, stem], rank: 2, dropout: 0, modules_to_save: [fc]}'";

TEST_F(AdaptedHostedModel, AdaptersAreExportedInPeftFormat) {
  trust("my_net.py",
        net("        x = self.scale(x)\n", "        self.scale = nn.BatchNorm2d(3)\n"));
  const Ended run = train(kConvolutionAdapters);
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended named = here("export run --adapter --names timm --out named");
  EXPECT_THAT(named.err, HasSubstr("leave out --names and --head-inside"));
  ASSERT_EQ(here("export run --out merged").exit, 0);
  const Ended exported = here("export run --adapter --out adapter");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_THAT(exported.out, HasSubstr("adapter/base/model.safetensors"));
  const json config = json::parse(file_text(folder_ / "adapter/adapter_config.json"));
  EXPECT_EQ(config["target_modules"], (json{"conv", "stem"}));
  EXPECT_EQ(config["modules_to_save"], json{"fc"});
  EXPECT_EQ(config["auto_mapping"],
            (json{{"base_model_class", "Net"}, {"parent_library", "my_net"}}));
  const Ended names = python(R"(
from safetensors.torch import load_file
for name, tensor in load_file('adapter/adapter_model.safetensors').items():
    print(name, *tensor.shape)
)");
  for (const char* const line :
       {"base_model.model.blocks.0.conv.lora_A.weight 2 4 3 3\n",
        "base_model.model.blocks.1.conv.lora_B.weight 4 2 1 1\n",
        "base_model.model.stem.lora_A.weight 2 3 4 4\n", "base_model.model.fc.weight 3 4\n"})
    EXPECT_THAT(names.out, HasSubstr(line)) << names.err;
  if (python("import peft").exit != 0) GTEST_SKIP() << "this Python has no package 'peft'";
  // Runs the README's program and the merged network on the same input.
  const Ended same = python(R"(
import json
import re
import torch
from safetensors.torch import load_file
def loaded(folder):
    program = re.search('```python(.*?)```', open(f'{folder}/README.md').read(), re.DOTALL)[1]
    names = {}
    exec(program.replace('folder = "."', f'folder = "{folder}"'), names)
    return names['network']
torch.manual_seed(1)
x = torch.rand(5, 3, 16, 16)
adapted, merged = loaded('adapter')(x), loaded('merged')(x)
torch.testing.assert_close(adapted, merged)
base = load_file('adapter/base/model.safetensors')
assert not torch.equal(base['stem.weight'], load_file('merged/model.safetensors')['stem.weight'])
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(AdaptedHostedModel, TrainingStartsFromAPeftAdapter) {
  trust("my_net.py", net());
  if (python("import peft").exit != 0) GTEST_SKIP() << "this Python has no package 'peft'";
  const Ended saved = python(R"(
import peft
import torch
import my_net
torch.manual_seed(1)
network = peft.get_peft_model(my_net.make(3), peft.LoraConfig(
    r=2, lora_alpha=16, target_modules=['conv', 'stem'], modules_to_save=['fc'], init_lora_weights=False))
network.save_pretrained('theirs')
)");
  ASSERT_EQ(saved.exit, 0) << saved.err;
  // The learning rate is too small to change a float32 weight.
  const Ended run = train(std::string(kConvolutionAdapters) +
                          " +model.adapters.adapter=theirs train.epochs=1 "
                          "train.optimizer.learning_rate=1e-30");
  ASSERT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("starts from the adapter in 'theirs'"));
  ASSERT_EQ(here("export run --adapter --out ours").exit, 0);
  const Ended same = python(R"(
import torch
from safetensors.torch import load_file
theirs, ours = (load_file(f'{folder}/adapter_model.safetensors') for folder in ('theirs', 'ours'))
assert sorted(theirs) == sorted(ours), (sorted(theirs), sorted(ours))
for name in theirs: assert torch.equal(theirs[name], ours[name]), name
)");
  EXPECT_EQ(same.exit, 0) << same.err;
}

TEST_F(AdaptedHostedModel, AdapterForALayerThatIsNotCalledIsRejected) {
  trust("my_net.py", net("        x = F.linear(x, self.mix.weight)\n",
                         "        self.mix = nn.Linear(16, 16)\n"));
  const Ended run = train("'model.adapters={targets: [mix], modules_to_save: [fc]}'");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("the adapter of 'mix' has no effect: the network does not call"));
}

TEST_F(AdaptedHostedModel, UnknownTargetSuggestsTheNearestName) {
  trust("my_net.py", net());
  const Ended run = train("'model.adapters={targets: [cnv]}'");
  EXPECT_EQ(run.exit, 78) << run.err;
  EXPECT_THAT(run.err, HasSubstr("no layer is called 'cnv'"));
  EXPECT_THAT(run.err, HasSubstr("conv"));
}

TEST_F(DeepHostedModel, AveragedAndFrozenNetworkCanBeExportedForAWarmStart) {
  trust("my_net.py", net("", "        self.stem.weight.requires_grad_(False)\n"));
  const Ended run = train("train.ema.decay=0.9");
  ASSERT_EQ(run.exit, 0) << run.err;
  const Ended exported = here("export run --out out");
  ASSERT_EQ(exported.exit, 0) << exported.err;
  EXPECT_THAT(file_text(folder_ / "out/README.md"), HasSubstr("averaged over the training steps"));
  const Ended warm = train("train.warm_start=out/model.safetensors", "second");
  EXPECT_EQ(warm.exit, 0) << warm.err;
}

TEST_F(AdaptedHostedModel, PretrainedWeightsWithDifferentNormalizationAreRejected) {
  trust("my_net.py", net("", R"(
        self.pretrained_cfg = {'input_size': (3, 16, 16), 'mean': (0.1, 0.2, 0.3), 'std': (1, 1, 1)}
)") + "\n\ndef pretrained(num_classes, pretrained):\n    return Net(num_classes)\n");
  const std::string model = "model.entry=my_net.py:pretrained +model.arguments.pretrained=";
  const Ended refused = train(model + "true");
  EXPECT_EQ(refused.exit, 78) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("trained on pixels with the mean [0.1,0.2,0.3]"));
  EXPECT_THAT(refused.err, HasSubstr("set data.normalize: {mean: [0.1,0.2,0.3], std: [1,1,1]}"));
  EXPECT_EQ(train(model + "false train.epochs=1", "random").exit, 0);
  EXPECT_EQ(
      train(model + "true train.epochs=1 'data.normalize={mean: [0.1, 0.2, 0.3], std: [1, 1, 1]}'",
            "same")
          .exit,
      0);
}

}  // namespace
