#include "stages/worker/predict.h"

#include <fstream>

#include <gmock/gmock.h>
#include <torch/types.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include "runner/shared/graph/graph.h"
#include "runner/shared/protocol/earlier_results.h"
#include "runner/shared/stage/config_reader.h"
#include "runner/shared/stage/stage.h"
#include "stages/artifact/model.h"
#include "stages/checkpoint/checkpoint_folder.h"
#include "stages/stages.h"
#include "tests/support/on_test_device.h"
#include "tests/support/pictures.h"
#include "tests/support/recording_context.h"
#include "tests/support/refused.h"
#include "tests/support/stage_options.h"

namespace stages {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::ElementsAre;
using testing::HasSubstr;

/// A tiny classifier of two kinds of images, trained for one epoch, and the request to predict with
/// it.
class Predict : public testing::Test {
 protected:
  explicit Predict(const std::string& policy = "{}", int image_size = 16) {
    for (int label = 0; label < 2; ++label) {
      for (int i = 0; i < 8; ++i) {
        pictures_.add("photos/c" + std::to_string(label) + "/" + std::to_string(i) + ".jpg",
                      static_cast<std::uint64_t>(8 * label + i), 20 + i);
      }
    }
    const runner::Outputs data =
        run(kDataImageFolder,
            stage_options("data/image_folder",
                          Json{{"root", path("photos")}, {"image_size", image_size}}.dump()));
    test_ = std::static_pointer_cast<const Dataset>(data.at("test"));
    const runner::Value model =
        stage_options("model/clip_vision", Json{{"hidden_size", 16},
                                                {"intermediate_size", 16},
                                                {"num_hidden_layers", 1},
                                                {"num_attention_heads", 2},
                                                {"patch_size", image_size / 2},
                                                {"projection_dim", nullptr}}
                                               .dump());
    const runner::Value memory = stage_options("memory/policy", policy);
    const runner::Value train =
        stage_options("train/supervised", R"({"epochs": 1, "batch_size": 4})");
    const auto model_made = run(kModelClipVision, model).at("model");
    const auto memory_made = run(kMemoryPolicy, memory).at("memory");
    const auto made =
        run(kTrainSupervised, train,
            {{"train", {data.at("train")}}, {"model", {model_made}}, {"memory", {memory_made}}});
    checkpoint_ = std::static_pointer_cast<const Checkpoint>(made.at("checkpoint"));

    runner::Graph graph{"test", 0, 1, "cpu", 1, {}};
    graph.nodes.push_back({"model", "model", "model.clip_vision", model, "/model", {}, 1});
    graph.nodes.push_back({"memory", "memory", "memory.policy", memory, "/memory", {}, 2});
    graph.nodes.push_back({"train",
                           "train",
                           "train.supervised",
                           train,
                           "/train",
                           {{"model", 0, "model", runner::ArtifactType::kModel},
                            {"memory", 1, "memory", runner::ArtifactType::kMemoryPolicy}},
                           3});
    const runner::CheckpointSources trained = {
        {"train",
         {context_.node().folder / "checkpoints", runner::CheckpointSource::Choice::kKept}}};
    request_ = {{"graph", to_json(graph)},   {"node", "train"}, {"checkpoints", to_json(trained)},
                {"paths", {path("photos")}}, {"top", 5},        {"batch_size", 3},
                {"skip_corrupt", false}};
  }

  runner::Outputs run(const runner::StageKind& kind, const runner::Value& options,
                      runner::Inputs::ByPort inputs = {}) {
    runner::ConfigReader reader(options, "/");
    auto stage = kind.create(reader);
    if (!stage) throw std::logic_error(stage.errors().front().message);
    return (*stage)->run(runner::Inputs(std::move(inputs)), context_);
  }
  std::string path(const std::string& below) const { return (pictures_ / below).string(); }

  Json predict() { return *answer(); }
  runner::Result<Json> answer() {
    items_.clear();
    said_.clear();
    const RequestContext context{
        [](const runner::Progress&) {}, [&](std::string_view line) { said_.emplace_back(line); },
        [&] { return is_canceled_; }, [&](const Json& item) { items_.push_back(item); }};
    return answer_predict(request_, context);
  }
  std::vector<std::string> files() const {
    std::vector<std::string> result;
    for (const Json& item : items_)
      result.push_back(
          fs::path(item["file"].get<std::string>()).lexically_relative(path("photos")));
    return result;
  }

  DrawingFolder pictures_;
  RecordingContext context_;
  std::shared_ptr<const Dataset> test_;
  std::shared_ptr<const Checkpoint> checkpoint_;
  Json request_;
  std::vector<Json> items_;
  std::vector<std::string> said_;
  bool is_canceled_ = false;
};

/// Uses images of 3 MiB each, more than the gaps in a GPU's segments.
class PredictLarge : public Predict {
 protected:
  PredictLarge() : Predict("{}", 512) {}
};

TEST_F(PredictLarge, PlanReportsTheGpuMemoryWithoutPredicting) {
  const auto planned = [&](int batch_size, const std::string& flip = "none") {
    request_["batch_size"] = batch_size;
    request_["flip"] = flip;
    request_["plan_for"] = "NVIDIA L4";
    const Json answer = predict();
    EXPECT_EQ(answer.size(), 1) << answer;
    return answer.value("needed", std::int64_t{0});
  };
  constexpr std::int64_t kPictures = 16, kPicture = 3 << 20;
  const std::int64_t one = planned(1), all = planned(kPictures);
  EXPECT_GT(one, std::int64_t{100} << 20) << "CUDA itself";
  EXPECT_GT(all, one + (kPictures - 8) * kPicture) << "one image is in a segment of 20 MiB";
  EXPECT_EQ(planned(1000), all) << "there are not that many images";
  EXPECT_GT(planned(kPictures, "both"), all + kPictures / 2 * kPicture)
      << "twice as many images are in memory";
  EXPECT_TRUE(items_.empty());
  EXPECT_TRUE(said_.empty());
}

TEST_F(Predict, PredictionsMatchTheNetwork) {
  const torch::NoGradGuard no_graph;
  for (std::int64_t index = 0; index < test_->describe().size; ++index) {
    request_["paths"] = {path("photos/" + test_->sample_name(index))};
    EXPECT_EQ(predict().dump(), R"({"images":1,"failed":0})");
    const at::Tensor image = test_->sample(0, index)->at("image").unsqueeze(0).to(here().device());
    const at::Tensor wanted = checkpoint_->model->forward(*checkpoint_->network, {{"image", image}})
                                  .at("logits")
                                  .to(at::kDouble)
                                  .softmax(1)[0];
    ASSERT_EQ(items_.size(), 1u);
    const Json& classes = items_[0]["classes"];
    ASSERT_EQ(classes.size(), 2u);
    const auto best = wanted.argmax().item<std::int64_t>();
    EXPECT_EQ(classes[0]["class"], "c" + std::to_string(best));
    EXPECT_NEAR(classes[0]["probability"].get<double>(), wanted[best].item<double>(), 1e-6);
    EXPECT_NEAR(classes[1]["probability"].get<double>(), wanted[1 - best].item<double>(), 1e-6);
  }
}

class PredictInBf16 : public Predict {
 protected:
  PredictInBf16() : Predict(R"({"precision": "bf16"})") {}

  /// Returns the probability of the first class.
  double probability(const at::Tensor& image, Precision precision) const {
    const torch::NoGradGuard no_graph;
    const ScopedPrecision scope(precision, here().device());
    return checkpoint_->model->forward(*checkpoint_->network, {{"image", image}})
        .at("logits")
        .to(at::kDouble)
        .softmax(1)[0][0]
        .item<double>();
  }
};

TEST_F(PredictInBf16, UsesTheMemoryPolicyOfTheTrainingRun) {
  const at::Tensor image = test_->sample(0, 0)->at("image").unsqueeze(0).to(here().device());
  request_["paths"] = {path("photos/" + test_->sample_name(0))};
  predict();
  ASSERT_EQ(items_.size(), 1u);
  double predicted = 0;
  for (const Json& one : items_[0]["classes"]) {
    if (one["class"] == "c0") predicted = one["probability"];
  }
  EXPECT_NEAR(predicted, probability(image, Precision::kBf16), 1e-9);
  EXPECT_GT(std::abs(predicted - probability(image, Precision::kFp32)), 1e-7);
}

TEST_F(Predict, ResultsAreInOrderAndTheSameForAnyBatchSize) {
  request_["batch_size"] = 1;
  predict();
  const std::vector<Json> one_by_one = items_;
  request_["batch_size"] = 100;
  EXPECT_EQ(predict().dump(), R"({"images":16,"failed":0})");
  ASSERT_EQ(items_.size(), one_by_one.size());
  for (std::size_t i = 0; i < items_.size(); ++i) {
    EXPECT_EQ(items_[i]["file"], one_by_one[i]["file"]);
    EXPECT_EQ(items_[i]["classes"][0]["class"], one_by_one[i]["classes"][0]["class"]);
    EXPECT_NEAR(items_[i]["classes"][0]["probability"].get<double>(),
                one_by_one[i]["classes"][0]["probability"].get<double>(), 1e-5);
  }
  EXPECT_EQ(files().front(), "c0/0.jpg");
  EXPECT_EQ(files().back(), "c1/7.jpg");
}

TEST_F(Predict, ReturnsAtMostTheRequestedClasses) {
  request_["top"] = 1;
  predict();
  EXPECT_EQ(items_.at(0)["classes"].size(), 1u);
}

TEST_F(Predict, NeedsNoTrainingDataAndWritesNoFiles) {
  fs::rename(pictures_ / "photos/c0", pictures_ / "elsewhere");
  fs::remove_all(pictures_ / "photos");
  request_["paths"] = {path("elsewhere")};
  const auto before = fs::last_write_time(context_.node().folder);
  EXPECT_EQ(predict()["images"], 8);
  EXPECT_EQ(fs::last_write_time(context_.node().folder), before);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("the weights after step ")));
}

TEST_F(Predict, UnreadableImageStopsPrediction) {
  std::ofstream(path("photos/c0/3.jpg")) << "broken";
  EXPECT_REFUSED(answer(), kUnsupportedImage, "", path("photos/c0/3.jpg"), "--skip-corrupt");
  EXPECT_THAT(files(), ElementsAre("c0/0.jpg", "c0/1.jpg", "c0/2.jpg"));  // the previous batch
}

TEST_F(Predict, SkippedImagesAreReportedAtTheirPosition) {
  for (const char* name : {"c0/0.jpg", "c0/4.jpg", "c1/6.jpg", "c1/7.jpg"})
    std::ofstream(path("photos/") + name) << "broken";
  request_["skip_corrupt"] = true;
  EXPECT_EQ(predict().dump(), R"({"images":16,"failed":4})");
  ASSERT_EQ(items_.size(), 16u);
  EXPECT_TRUE(std::ranges::is_sorted(files()));
  for (const Json& item : items_) {
    const std::string file =
        fs::path(item["file"].get<std::string>()).lexically_relative(path("photos"));
    const bool broken =
        file == "c0/0.jpg" || file == "c0/4.jpg" || file == "c1/6.jpg" || file == "c1/7.jpg";
    EXPECT_EQ(item.contains("code"), broken) << item;
    if (broken)
      EXPECT_EQ(item["message"],
                "image '" + path("photos/" + file) + "': it is not JPEG, PNG or WebP");
  }
}

TEST_F(Predict, AllImagesAreReportedIfNoneIsReadable) {
  fs::create_directories(pictures_ / "broken");
  for (const char* name : {"broken/a.jpg", "broken/b.jpg"}) std::ofstream(path(name)) << "broken";
  request_["skip_corrupt"] = true;
  request_["paths"] = {path("broken")};
  EXPECT_EQ(predict().dump(), R"({"images":2,"failed":2})");
  EXPECT_EQ(items_.size(), 2u);
}

TEST_F(Predict, CheckpointWithoutAnInputDescriptionIsRejected) {
  const fs::path folder = checkpoint_->file.parent_path();
  TrainingState state = read_checkpoint(folder);
  const auto rewritten = [&](const std::string& transform) {
    state.about["transform"] = transform;
    fs::remove_all(folder);
    fs::create_directories(folder);
    write_checkpoint(folder, state, runner::disk());
    predict();
  };
  EXPECT_REFUSED(rewritten(""), kUnknownInput, "", folder.string());
  EXPECT_REFUSED(rewritten(R"({"kind": "image"})"), kUnknownInput, "", "'image_size'");
}

TEST_F(Predict, NodeWithoutACheckpointIsRejected) {
  for (const char* node : {"model", "nobody"}) {
    request_["node"] = node;
    EXPECT_REFUSED(answer(), kNoCheckpoint, "", std::string(node));
  }
}

TEST_F(Predict, InvalidRequestIsRejectedWithThePointer) {
  const auto refusal = [&](const char* key, const Json& value) -> std::string {
    const Json before = request_;
    request_[key] = value;
    try {
      predict();
    } catch (const std::runtime_error& error) {
      request_ = before;
      return error.what();
    }
    return "answered";
  };
  EXPECT_EQ(refusal("top", "5"), "the request has a 'top' that is not an integer");
  EXPECT_EQ(refusal("paths", Json::array({1})),
            "the request has a 'paths' that is not a list of strings");
  EXPECT_EQ(refusal("skip_corrupt", 0), "the request has a 'skip_corrupt' that is not a boolean");
  EXPECT_EQ(refusal("tops", 5), "the request has an unknown 'tops'");
  request_.erase("node");
  EXPECT_EQ(refusal("log", "info"), "the request has no 'node'");
}

TEST_F(Predict, MissingAverageIsRejected) {
  request_["checkpoints"]["train"]["weights"] = "averaged";
  EXPECT_REFUSED(answer(), kOptionConflict, "/train/ema", "--weights averaged");
  request_["checkpoints"]["train"]["weights"] = "trained";
  EXPECT_EQ(predict().dump(), R"({"images":16,"failed":0})");
}

TEST_F(Predict, MissingPathIsReportedBeforeLoading) {
  request_["paths"] = {"no/such.jpg"};
  EXPECT_REFUSED(answer(), kMissingImage, "", "no/such.jpg");
  EXPECT_TRUE(said_.empty());
}

TEST_F(Predict, StopsOnRequest) {
  is_canceled_ = true;
  EXPECT_THROW(predict(), runner::Canceled);
}

}  // namespace
}  // namespace stages
