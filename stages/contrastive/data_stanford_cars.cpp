#include "stages/data/image_stage.h"
#include "stages/contrastive/stanford_cars_list.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_stanford_cars(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  double validation = 0;
  bool crop_to_box = false;
  ImageSource source;
  reader.read("validation", validation);
  reader.read("split_seed", source.split_seed);
  reader.read("crop_to_box", crop_to_box);
  const auto labels =
      runner::choice<CarLabels>(reader, "labels", {{"model", CarLabels::kModel}, {"make", CarLabels::kMake}});
  source.divided_by = labels == CarLabels::kMake ? "makes" : "models";
  source.captions = read_captions(reader, {"name", "make", "model", "year"});
  if (validation > 0) source.split = {.train = 1 - validation, .validation = validation, .test = 0};
  source.list = [root = options.root, labels, crop_to_box, outside = options.allow_outside] {
    return list_stanford_cars(root, labels, crop_to_box, outside);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataStanfordCars = {.name = "data.stanford_cars", .create = create_stanford_cars};

}  // namespace stages
