#include "runner/shared/stage/config_reader.h"
#include "stages/adapters/flowers102_list.h"
#include "stages/data/image_stage.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_flowers102(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  const auto parts = runner::choice<FlowerParts>(reader, "parts",
                                                 {{"published", FlowerParts::kPublished},
                                                  {"train_and_validation", FlowerParts::kTrainAndValidation},
                                                  {"swapped", FlowerParts::kSwapped}});
  std::string divided_by;
  reader.read("parts", divided_by);
  return image_stage(reader, options,
                     {.list = [root = options.root, parts,
                               outside = options.allow_outside] { return list_flowers102(root, parts, outside); },
                      .obtain = read_download(reader, "flowers102", options.root),
                      .divided_by = "parts " + divided_by,
                      .captions = read_captions(reader, {"name"})});
}

}  // namespace

extern const runner::StageKind kDataFlowers102 = {.name = "data.flowers102", .create = create_flowers102};

}  // namespace stages
