# A model inside another one was not compiled: the outer one's optimizer is not handed to it.
k="$TESTDATA/files/keras-3.6.0-native/nested"
pginfo "$k/template.keras" | sed -n '2,3p'
pgunwrap --template encoder "$k/template.keras" inner.keras
pginfo inner.keras | sed -n '2,3p'
pgunwrap "$k/wrapper.keras" single.keras
