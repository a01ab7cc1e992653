package linear
import ("testing";"encoding/json";"os";"math";"time";"strconv"
"github.com/privopt/privopt/dp"
"github.com/privopt/privopt/loss")
func TestZZ(t *testing.T){
 raw,_:=os.ReadFile("/work/shared/golden/joint.json")
 var g struct{Entries []struct{Name,Kind,Relation,Loss string; Monotone bool; Eps float64; SmallDelta json.RawMessage `json:"delta"`; Ridge float64 `json:"Delta"`; Sigma json.RawMessage; Rate string}}
 if err:=json.Unmarshal(raw,&g);err!=nil{t.Fatal(err)}
 num:=func(r json.RawMessage)float64{s:=string(r); if len(s)>0&&s[0]=='"'{s=s[1:len(s)-1]}; v,_:=strconv.ParseFloat(s,64); return v}
 bounds:=loss.Bounds{Row:1,Label:1}
 env:=map[string]loss.Envelope{"logistic":loss.Logistic{},"logcosh":loss.LogCosh{Delta:1},"pseudohuber":loss.PseudoHuber{Delta:1},"pshinge":loss.RootHinge{Width:1}}
 for _,e:=range g.Entries{
  if e.Kind!="sigma"&&e.Kind!="pure"{continue}
  rel:=dp.Replace; if e.Relation=="AddRemove"{rel=dp.AddRemove}
  p:=Problem{Dim:5,Constants:glm(1,1),Relation:rel,Monotone:e.Monotone,Budget:dp.Budget{Epsilon:e.Eps,Delta:num(e.SmallDelta)}}
  if l:=env[e.Loss];l!=nil{ p.Constants=l.Constants(bounds,math.Inf(1)); p.Envelope=func(lo,hi float64)float64{return l.Envelope(bounds,lo,hi)}}
  t0:=time.Now()
  b:=at(t,p,e.Ridge)
  d:=time.Since(t0)
  if e.Kind=="sigma"{ t.Logf("%-60s %.10g want %.10g ratio-1 %.3g %v %s",e.Name,b.Sigma,num(e.Sigma),b.Sigma/num(e.Sigma)-1,d,b.Theorem)} else {
   w,_:=strconv.ParseFloat(e.Rate,64); t.Logf("%-60s %.10g want %.10g ratio-1 %.3g %v %s",e.Name,b.Rate,w,b.Rate/w-1,d,b.Theorem)}
 }
}
func BenchmarkZZ(b *testing.B){
 bounds:=loss.Bounds{Row:1,Label:1}
 for _,rel:=range []dp.Relation{dp.AddRemove,dp.Replace}{ for _,l:=range []loss.Envelope{loss.Logistic{},loss.LogCosh{Delta:1}}{
 p:=Problem{Dim:5,Constants:l.Constants(bounds,math.Inf(1)),Relation:rel,Budget:dp.Budget{Epsilon:1,Delta:1e-5},Envelope:func(lo,hi float64)float64{return l.Envelope(bounds,lo,hi)}}
 _,p.Monotone=l.(loss.Logistic)
 k:=calibrator(b,p)
 ridge:=k.LeastRidge(0.4)
 b.Run("search",func(b *testing.B){ for b.Loop(){k.noise(ridge,&guess{})}})
 b.Run("certified",func(b *testing.B){ for b.Loop(){k.noise(ridge,nil)}})
 b.Run("best",func(b *testing.B){ for b.Loop(){k.Best(Bound{Radius:10})}})
 }}
}
