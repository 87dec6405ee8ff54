#include "stages/adapters/cub200_list.h"
#include "stages/data/image_stage.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_cub200(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  double validation = 0;
  bool crop_to_box = false;
  ImageSource source;
  reader.read("validation", validation);
  reader.read("split_seed", source.split_seed);
  reader.read("crop_to_box", crop_to_box);
  if (validation > 0) source.split = {.train = 1 - validation, .validation = validation, .test = 0};
  source.captions = read_captions(reader, {"name"});
  source.obtain = read_download(reader, "cub200", options.root);
  source.list = [root = options.root, crop_to_box, outside = options.allow_outside] {
    return list_cub200(root, crop_to_box, outside);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataCub200 = {.name = "data.cub200", .create = create_cub200};

}  // namespace stages
