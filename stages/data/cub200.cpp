#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runner/stage/config_reader.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/data/cub200_list.h"
#include "stages/data/fetched_list.h"
#include "stages/data/image_parts.h"

namespace stages {
namespace {

struct Cub200Config {
  ImageOptions images;
  double validation = 0;
  std::optional<std::int64_t> split_seed;
  bool crop_to_box = false;
};

class Cub200Stage : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    Cub200Config config;
    config.images = read_image_options(reader);
    reader.read("validation", config.validation);
    reader.read("split_seed", config.split_seed);
    reader.read("crop_to_box", config.crop_to_box);
    if (config.validation >= 1) {
      reader.fail("validation", runner::ErrorCode::kOptionConflict, "validation: 1 leaves no image for training",
                  "hold out less");
    }
    bool download = false;
    reader.read("download", download);
    const ImageOptions& images = config.images;
    FetchedList list("cub200", images.root, download,
                     [root = images.root, crop = config.crop_to_box, outside = images.allow_outside] {
                       return list_cub200(root, crop, outside);
                     });
    for (const runner::Diagnostic& problem : list.problems())
      reader.fail("root", problem.code, problem.message, problem.help);
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Cub200Stage>(std::move(config), std::move(list)));
  }

  Cub200Stage(Cub200Config config, FetchedList list) : config_(std::move(config)), list_(std::move(list)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    auto list = std::make_shared<ImageList>(list_.get(context));
    split(*list, {.train = 1 - config_.validation, .validation = config_.validation, .test = 0},
          config_.split_seed ? static_cast<std::uint64_t>(*config_.split_seed) : context.seed());
    return image_parts(std::move(list), config_.images, context);
  }
  std::string fingerprint() const override { return list_.get() ? stages::fingerprint(*list_.get()) : ""; }
  bool uses_seed() const override {
    return changes_images(config_.images.images.augment) || (config_.validation > 0 && !config_.split_seed);
  }

 private:
  const Cub200Config config_;
  FetchedList list_;
};

}  // namespace

extern const runner::StageKind kDataCub200 = {.name = "data.cub200", .create = Cub200Stage::create};

}  // namespace stages
