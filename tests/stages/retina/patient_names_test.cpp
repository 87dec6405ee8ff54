#include "stages/retina/fundus_list.h"

#include <stdexcept>
#include <string>

#include <gmock/gmock.h>

#include "runner/shared/stage/stage.h"

namespace stages {
namespace {

std::string patient(const std::string& file) {
  const DrawingOwner owner = PatientNames().of(file);
  return owner.is_patient ? owner.name : "none: " + owner.name;
}

TEST(PatientNames, NumberBeforeAnEyeIdentifiesThePatient) {
  for (const char* const name :
       {"17_left.jpeg",
        "17_right",
        "17_left-600.jpg",
        "17_left-600-FA.jpg",
        "17_right_rot90.jpeg",
        "17_left_aug_3.png",
        "17_left_flip.png",
        "17_left_90.jpeg",
        "17_right (2).jpeg",
        "17_left2.jpg",
        "17-Left.JPG",
        "17_OD.jpg",
        "17 os.png",
        "17OD.png",
        "17_l1.jpg",
        "17_r2.jpg",
        "17_r.png",
        "left_17.png",
        "GF-17_left.jpg",
        "flip_17_left.jpeg",
        "rot90_hflip_17_right.jpeg",
        "17_left_jpeg.rf.0123456789abcdef0123456789abcdef.jpg",
        "0_original_17_left.jpeg_0a1b2c3d-0123-0123-0123-0123456789ab.jpeg"})
    EXPECT_EQ(patient(name), "17") << name;
  EXPECT_EQ(patient("P0017_left.png"), "P0017");
  EXPECT_EQ(patient("0a17_left.png"), "0a17");
}

TEST(PatientNames, SimilarWordsDoNotCountAsEyes) {
  for (const char* const name : {"17_leftover.png", "_left.png", "fundus_left_001.png",
                                 "12_rot90.png", "12_lesion.png", "img12_method.png"})
    EXPECT_FALSE(PatientNames().of(name).is_patient) << name;
}

TEST(PatientNames, CopiesBelongToTheirOriginal) {
  const auto belongs = [](const std::string& copy, const std::string& original) {
    EXPECT_EQ(patient(copy), "none: " + original);
    EXPECT_EQ(patient(original + ".png"), "none: " + original);
  };
  for (const char* const copy :
       {"0a1b2c3d4e5f_aug3.png", "0a1b2c3d4e5f-600.jpg", "0a1b2c3d4e5f-600-FA.jpg",
        "GF-0a1b2c3d4e5f.jpg", "0a1b2c3d4e5f_png.rf.0123456789abcdef.jpg",
        "rotated_0a1b2c3d4e5f.png"})
    belongs(copy, "0a1b2c3d4e5f");
  for (const char* const copy :
       {"img12_flip.png", "img12_rot90_hflip.png", "img12_rot_90.png", "img12-aug-0-1234.png",
        "img12 - Copy.png", "img12 - Copy (2).png", "img12_brightness_1.2.png",
        "augmented_img12.png", "rot_90_img12.png", "rot_img12.png", "img12_FA.png"})
    belongs(copy, "img12");
  belongs("IDRiD_001_flip.jpg", "IDRiD_001");
  belongs("20051020_44761_0100_PP-600.jpg", "20051020_44761_0100_PP");
  belongs("20170413102628830_rot90.jpg", "20170413102628830");
}

TEST(PatientNames, DifferentImagesStaySeparate) {
  for (const char* const name :
       {"IDRiD_001", "img_12", "fundus_enhanced_0023", "image (1)", "1", "00001", "C0002422",
        "20060411_58550_0200_PP", "flip", "caf\xe9_1"})
    EXPECT_EQ(patient(std::string(name) + ".jpg"), std::string("none: ") + name);
  EXPECT_EQ(patient("007-0004-000.jpg"), "none: 007-0004");
}

TEST(PatientNames, PatternExtractsThePatient) {
  const PatientNames names("^([a-z]+)-");
  EXPECT_EQ(names.of("anna-1.png"), (DrawingOwner{"anna", true}));
  EXPECT_EQ(names.of("17_left.png"), (DrawingOwner{"17_left", false}));
  EXPECT_EQ(PatientNames("(visit)_(?<patient>\\d+)").of("b/visit_12.png"),
            (DrawingOwner{"12", true}));
  EXPECT_EQ(PatientNames("(\\d+)$").of("a_12.png"), (DrawingOwner{"12", true}));
}

TEST(PatientNames, PatternMustBeValidAndHaveAGroup) {
  try {
    const PatientNames names("\\d+");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "it has no group: put the patient in parentheses");
  }
  EXPECT_THROW(PatientNames("("), std::invalid_argument);
}

TEST(PatientNames, LongNamesAreMatchedQuickly) {
  for (const std::string& piece : {"1", "a", "_", "1_", "_rot9", "rot_9_", "_aug1", "aug1_",
                                   "1_aug_1", "_original_", "-flip-"}) {
    std::string name;
    while (name.size() < 250) name += piece;
    EXPECT_NO_THROW(PatientNames().of(name)) << piece;
    EXPECT_NO_THROW(PatientNames().of(name + "?")) << piece;
  }
  EXPECT_THROW(PatientNames("((a+)+)+$").of(std::string(60, 'a') + "b"), runner::StageError);
}

}  // namespace
}  // namespace stages
