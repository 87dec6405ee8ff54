#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "runner/stage/config_reader.h"
#include "runner/stage/run_context.h"
#include "runner/stage/stage.h"
#include "stages/data/fetched_list.h"
#include "stages/data/flowers102_list.h"
#include "stages/data/image_parts.h"

namespace stages {
namespace {

constexpr std::array<std::pair<std::string_view, FlowerParts>, 3> kFlowerParts = {
    {{"published", FlowerParts::kPublished},
     {"train_and_validation", FlowerParts::kTrainAndValidation},
     {"swapped", FlowerParts::kSwapped}}};

class Flowers102Stage : public runner::Stage {
 public:
  static runner::Result<std::unique_ptr<runner::Stage>> create(runner::ConfigReader& reader) {
    ImageOptions options = read_image_options(reader);
    FlowerParts parts = FlowerParts::kPublished;
    read_word(reader, "parts", kFlowerParts, parts);
    bool download = false;
    reader.read("download", download);
    FetchedList list("flowers102", options.root, download,
                     [parts, root = options.root, outside = options.allow_outside] {
                       return list_flowers102(root, parts, outside);
                     });
    for (const runner::Diagnostic& problem : list.problems())
      reader.fail("root", problem.code, problem.message, problem.help);
    if (auto errors = reader.finish(); !errors.empty()) return errors;
    return std::unique_ptr<runner::Stage>(std::make_unique<Flowers102Stage>(std::move(options), std::move(list)));
  }

  Flowers102Stage(ImageOptions options, FetchedList list) : options_(std::move(options)), list_(std::move(list)) {}

  runner::Outputs run(const runner::Inputs&, runner::RunContext& context) override {
    return image_parts(std::make_shared<const ImageList>(list_.get(context)), options_, context);
  }
  std::string fingerprint() const override { return list_.get() ? stages::fingerprint(*list_.get()) : ""; }
  bool uses_seed() const override { return changes_images(options_.images.augment); }

 private:
  const ImageOptions options_;
  FetchedList list_;
};

}  // namespace

extern const runner::StageKind kDataFlowers102 = {.name = "data.flowers102", .create = Flowers102Stage::create};

}  // namespace stages
