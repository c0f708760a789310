# One model in two layouts that count its layers in different orders: pairs come from a description, also a wrapper's, or are not claimed.
cp "$TESTDATA"/extra/keras-2.15/counted/* .
pgdiff wrapper_model.h5 template.weights.h5
pgdiff wrapper.weights.h5 template_model.h5
pgdiff template.weights.h5 wrapper_weights.h5 || echo "exit $?"
pgdiff template_weights.h5 wrapper.weights.h5 || echo "exit $?"
pgdiff --json template_weights.h5 template.weights.h5 || echo "exit $?"
pgdiff -q template_weights.h5 template.weights.h5 || echo "exit $?"
