#include <string>

#include "stages/data/fundus_list.h"
#include "stages/data/fundus_parts.h"
#include "stages/data/image_stage.h"

namespace stages {
namespace {

runner::Result<std::unique_ptr<runner::Stage>> create_fundus(runner::ConfigReader& reader) {
  const ImageOptions options = read_image_options(reader);
  const auto layout = runner::choice<FundusLayout>(reader, "layout",
                                                   {{"class_folders", FundusLayout::kClassFolders},
                                                    {"aptos_2019", FundusLayout::kAptos2019},
                                                    {"eyepacs_2015", FundusLayout::kEyepacs2015}});
  const auto duplicates = runner::choice<Duplicates>(
      reader, "duplicates", {{"stop", Duplicates::kStop}, {"drop", Duplicates::kDrop}, {"keep", Duplicates::kKeep}});
  ImageSource source;
  read_split(reader.section("split"), source);
  SplitOptions& shares = *source.split;
  const SplitOptions wanted = shares;
  if (const double rest = shares.train + shares.validation; has_published_test(options.root, layout) && rest > 0)
    shares = {.train = shares.train / rest, .validation = shares.validation / rest, .test = 0};
  source.list = [root = options.root, layout, outside = options.allow_outside] {
    return list_fundus(root, layout, outside);
  };
  source.look = [duplicates, wanted](ImageList& list, runner::RunContext& context) {
    check_fundus_parts(list, wanted, duplicates, context);
  };
  return image_stage(reader, options, std::move(source));
}

}  // namespace

extern const runner::StageKind kDataFundus = {.name = "data.fundus", .create = create_fundus};

}  // namespace stages
